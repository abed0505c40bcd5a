// The names of a table's rows, for messages, help and completion.
#pragma once

#include <string>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the `name` of each row, in the rows' order.
template <class Rows>
std::vector<std::string> names_in(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace meshwright::core
