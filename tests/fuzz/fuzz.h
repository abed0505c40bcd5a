// Shared code of the fuzz targets. Each target is an LLVMFuzzerTestOneInput in its own file. Good
// inputs must be read without fault, and those that meshwright can write are written and read again
// with the same result. Bad inputs must be rejected with a message that names the place. libFuzzer
// calls the target in the preset `fuzz`. In every other build replay.cpp calls it for each file of
// the corpus.
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

// Returns what `read` returns, or nothing if it throws an InputError whose message begins with
// `place`. An InputError with another message aborts, and other exceptions pass through, so
// libFuzzer reports both.
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

// Writes these bytes to a file of this name in a folder that exists as long as the program runs.
// Returns its path.
std::string input_file(const std::string& name, std::string_view bytes);

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace meshwright::tests::fuzz
