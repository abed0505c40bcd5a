// Links by level, the lowest first: a handful, sorted, as a rule, which takes less than a heap; a
// heap from the moment when they are many until all have been taken out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace meshwright {

class LevelQueue {
 public:
  bool empty() const { return items_.empty(); }

  void push(double level, int link) {
    if (!is_heap_ && items_.size() == most_sorted) {
      std::reverse(items_.begin(), items_.end());
      is_heap_ = true;
    }
    std::size_t place = items_.size();
    items_.emplace_back(level, link);
    if (is_heap_) return std::push_heap(items_.begin(), items_.end(), std::greater<>());
    for (; place > 0 && items_[place - 1].first < level; --place) items_[place] = items_[place - 1];
    items_[place] = {level, link};
  }

  int pop() {
    if (is_heap_) std::pop_heap(items_.begin(), items_.end(), std::greater<>());
    const int link = items_.back().second;
    items_.pop_back();
    is_heap_ = is_heap_ && !items_.empty();
    return link;
  }

 private:
  static constexpr std::size_t most_sorted = 64;
  std::vector<std::pair<double, int>> items_;  // sorted: by falling level
  bool is_heap_ = false;
};

}  // namespace meshwright
