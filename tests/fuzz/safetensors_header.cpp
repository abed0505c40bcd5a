// The header of a safetensors file.
// sources: exec/checkpoint/safetensors.cpp exec/checkpoint/file.cpp
// sources: models/core/fields.cpp models/core/error.cpp
#include "exec/checkpoint/safetensors.h"
#include "models/core/error.h"

using namespace meshwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t data_bytes = 4096;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& [name, tensor] : parse_safetensors_header(text, data_bytes, "fuzzed"))
      MESHWRIGHT_CHECK(0 <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= data_bytes,
                       "what is read lies in the file");
  } catch (const InputError&) {
  } catch (const RunError&) {
  }
  return 0;
}
