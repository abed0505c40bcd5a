// A choice of steps, such as `3,10-12`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meshwright {

class StepList {
 public:
  // InputError begins with `where`.
  StepList(const std::string& where, const std::string& text);
  bool contains(std::int64_t step) const;
  int last() const;

 private:
  std::vector<std::pair<int, int>> ranges_;  // first and last
};

}  // namespace meshwright
