// Fuzzes the readers of a checkpoint: the header of its shard files, and its manifest, as it is and
// with a right checksum appended.
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/shard_file.h"
#include "exec/core/crc32c.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

namespace {

constexpr std::int64_t data_bytes = 4096;

void shard(std::string_view text) {
  const auto read = [](std::string_view bytes, std::int64_t file_bytes) {
    return fuzz::read_or_refused("fuzzed: ",
                                 [&] { return parse_shard_header(bytes, file_bytes, "fuzzed"); });
  };
  const auto header = read(text, static_cast<std::int64_t>(text.size()) + data_bytes);
  if (!header) return;
  for (const Piece& piece : header->pieces)
    MESHWRIGHT_CHECK(piece.elements() > 0 && piece.elements() <= piece.shape.elements(),
                     "what is read holds elements of its parameter");
  const std::string written = encode(*header);
  const auto room = static_cast<std::int64_t>(text.size()) - header->data_begin + data_bytes;
  const auto again = read(written, static_cast<std::int64_t>(written.size()) + room);
  MESHWRIGHT_CHECK(again && encode(*again) == written, "a header written is read as the same");
}

void manifest(const std::string& text) {
  const auto read = [](const std::string& bytes) {
    return fuzz::read_or_refused("fuzzed: ", [&] { return parse_manifest(bytes, "fuzzed"); });
  };
  const auto found = read(text);
  if (!found) return;
  const std::string written = encode(*found);
  const auto again = read(written);
  MESHWRIGHT_CHECK(again && encode(*again) == written, "a manifest written is read as the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  shard(text);
  manifest(text);
  manifest(text + "crc32c " + hex8(crc32c(text)) + "\n");
  return 0;
}
