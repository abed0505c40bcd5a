// Shared code of the fuzz targets. Each target is an LLVMFuzzerTestOneInput in its own file. Good
// bytes are read, written and read again with the same result, and bad ones are rejected with a
// place. libFuzzer calls the target (preset `fuzz`). In every other build replay.cpp does, on the
// corpus alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "models/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace meshwright::tests::fuzz {

// Returns what `read` returns, or nothing if it throws an InputError that begins with `place`.
// Another error, or one without its place, is a finding.
template <typename Read>
auto read_or_refused(std::string_view place, const Read& read)
    -> std::optional<std::invoke_result_t<Read>> {
  try {
    return read();
  } catch (const InputError& error) {
    MESHWRIGHT_CHECK(std::string_view(error.what()).starts_with(place), error.what());
    return std::nullopt;
  }
}

// Writes these bytes to a file of this name in a folder that lasts as long as the program. Returns
// its path.
std::string input_file(const std::string& name, std::string_view bytes);

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace meshwright::tests::fuzz
