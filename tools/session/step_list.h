// Holds a set of steps, given as text such as `3,10-12`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meshwright::session {

class StepList {
 public:
  // Throws InputError, whose message begins with `where`, if `text` is not a list of steps and
  // ranges.
  StepList(const std::string& where, const std::string& text);
  bool contains(std::int64_t step) const;
  int last() const;

 private:
  std::vector<std::pair<int, int>> ranges_;  // first and last step of each
};

}  // namespace meshwright::session
