// Headers of a checkpoint's files, and its manifest with and without a right checksum.
// sources: exec/checkpoint/shard_file.cpp exec/checkpoint/manifest.cpp exec/checkpoint/crc32c.cpp
// sources: exec/checkpoint/file.cpp models/core/fields.cpp models/core/error.cpp
#include "exec/checkpoint/crc32c.h"
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/shard_file.h"
#include "models/core/error.h"

using namespace meshwright;

namespace {

template <typename Parse>
void refuses_or_reads(const Parse& parse) {
  try {
    parse();
  } catch (const InputError&) {
  } catch (const RunError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  refuses_or_reads([&] {
    const auto bytes = static_cast<std::int64_t>(size) + 4096;
    for (const Piece& piece : parse_shard_header(text, bytes, "fuzzed").pieces)
      MESHWRIGHT_CHECK(piece.elements() > 0 && piece.elements() <= piece.shape.elements(),
                       "what is read holds elements of its parameter");
  });
  refuses_or_reads([&] { parse_manifest(text, "fuzzed"); });
  refuses_or_reads([&] { parse_manifest(text + "crc32c " + hex8(crc32c(text)) + "\n", "fuzzed"); });
  return 0;
}
