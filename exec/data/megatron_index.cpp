#include "exec/data/megatron_index.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/data/data_file.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr char magic[] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr std::int64_t header_bytes = sizeof magic + 8 + 1 + 8 + 8;

struct StoredType {
  const char* name;
  int width;  // 0: not read
};
// The types by their code in the index, which counts from 1.
constexpr StoredType types[] = {{"uint8", 1}, {"int8", 0},    {"int16", 0},   {"int32", 4},
                                {"int64", 0}, {"float64", 0}, {"float32", 0}, {"uint16", 2}};

[[noreturn]] void fail(const std::string& index, const std::string& what) {
  throw InputError(index + ": " + what);
}

int width_of(const std::string& index, unsigned code) {
  if (code < 1 || code > std::size(types))
    fail(index, "has the type " + std::to_string(code) + "; types are 1 to " +
                    std::to_string(std::size(types)) + ": is it damaged?");
  const StoredType& type = types[code - 1];
  if (type.width == 0)
    fail(index, std::string("holds ") + type.name + "; tokens are uint8, uint16 or int32");
  return type.width;
}

// Throws InputError unless every sequence begins where the previous one ends and the last one ends
// with NAME.bin, which has `bin_bytes` bytes.
void check_sequences(const DataFile& file, std::int64_t sequences, int width,
                     std::int64_t bin_bytes) {
  constexpr std::int64_t at_once = 1 << 14;
  std::vector<unsigned char> sizes(4 * at_once), begins(8 * at_once);
  std::int64_t expected = 0;
  for (std::int64_t first = 0; first < sequences; first += at_once) {
    const std::int64_t count = std::min(at_once, sequences - first);
    file.read(header_bytes + 4 * first, sizes.data(), 4 * count);
    file.read(header_bytes + 4 * sequences + 8 * first, begins.data(), 8 * count);
    for (std::int64_t i = 0; i < count; ++i) {
      if (little_endian_64(begins.data() + 8 * i) != static_cast<std::uint64_t>(expected))
        fail(file.path(), "sequence " + std::to_string(first + i) +
                              " does not begin where the one before it ends; it is damaged");
      expected += std::int64_t{little_endian_32(sizes.data() + 4 * i)} * width;
    }
  }
  if (expected != bin_bytes)
    fail(file.path(), "its sequences have " + std::to_string(expected) + " bytes, but " +
                          megatron_name(file.path()) + ".bin has " + std::to_string(bin_bytes) +
                          "; the two do not belong together, or one is truncated");
}

}  // namespace

std::string megatron_name(const std::string& path) {
  const bool has_ending = path.ends_with(".bin") || path.ends_with(".idx");
  return path.substr(0, path.size() - (has_ending ? 4 : 0));
}

int megatron_width(const std::string& index, std::int64_t bin_bytes) {
  const DataFile file(index, "a header");
  unsigned char header[header_bytes];
  if (file.bytes() < header_bytes) fail(index, "is too short for an index of Megatron-LM");
  file.read(0, header, header_bytes);
  if (std::memcmp(header, magic, sizeof magic) != 0)
    fail(index, "is no index of Megatron-LM: it does not begin with MMIDIDX");
  const unsigned char* at = header + sizeof magic;
  if (const std::uint64_t version = little_endian_64(at); version != 1)
    fail(index, "has version " + std::to_string(version) + "; only version 1 is known");
  const int width = width_of(index, at[8]);
  const std::uint64_t sequences = little_endian_64(at + 9), documents = little_endian_64(at + 17);
  // After the documents there may be more data (modes of multimodal sequences).
  const auto room = static_cast<std::uint64_t>(file.bytes() - header_bytes);
  if (sequences > room / 12 || documents > (room - 12 * sequences) / 8)
    fail(index, "says " + std::to_string(sequences) + " sequences and " +
                    std::to_string(documents) +
                    " documents, for which it is too short; it is truncated");
  check_sequences(file, static_cast<std::int64_t>(sequences), width, bin_bytes);
  return width;
}

}  // namespace meshwright::exec
