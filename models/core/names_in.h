// Lists the names of a table's rows, for messages and for help.
#pragma once

#include <string>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the member `name` of each row, in the rows' order.
template <class Rows>
std::vector<std::string> names_in(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace meshwright::core
