// Lets a caller of the session hear what happens while the session works.
#pragma once

#include <functional>
#include <string>

#include "sim/planner/search.h"

namespace meshwright::session {

// Each function gets text of one or more whole lines, without a line feed at its end. The texts may
// hold parts of a job or a data file, so whoever prints them makes them printable.
struct Watch {
  using Say = std::function<void(const std::string& text)>;
  Say warn = [](const std::string&) {};  // a warning, without the word "warning"
  Say note = [](const std::string&) {};  // what the session does or has decided
  SearchWatch search;                    // how far a search is; null: nobody watches
  // The function is called often, from any thread. A search ends once it returns true. If it is
  // null, nobody stops a search.
  std::function<bool()> stop;
};

}  // namespace meshwright::session
