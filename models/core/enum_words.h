// Checks at compile time that a list of words, or a table, has one entry for each enumerator of an
// enumeration. A new enumerator without an entry is then an error of the build.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns `words` as a vector: one word for each enumerator, in the enumerators' order. `last` is
// the last enumerator. A wrong number of words does not compile.
template <auto last, std::size_t count>
std::vector<std::string> words_up_to(const char* const (&words)[count]) {
  static_assert(count == static_cast<std::size_t>(last) + 1, "one word for each enumerator");
  return {std::begin(words), std::end(words)};
}

// Returns whether a table has one row for each enumerator, in the enumerators' order. `key` is the
// member of a row that holds the enumerator, and `last` is the last enumerator.
template <auto last, class Row, std::size_t count, class Enum>
consteval bool has_row_of_each(const Row (&rows)[count], Enum Row::*key) {
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<std::size_t>(rows[i].*key) != i) return false;
  return count == static_cast<std::size_t>(last) + 1;
}

}  // namespace meshwright::core
