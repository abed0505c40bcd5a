// A first-in, first-out queue that keeps its memory. std::deque would free its blocks and allocate
// new ones.
#pragma once

#include <cstddef>
#include <vector>

namespace meshwright::exec {

template <typename T>
class Fifo {
 public:
  void reserve(std::size_t items) { items_.reserve(items); }
  bool empty() const { return first_ == items_.size(); }
  const T& front() const { return items_[first_]; }
  T& front() { return items_[first_]; }
  void push_back(const T& item) {
    if (items_.size() == items_.capacity()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    items_.push_back(item);
  }
  void pop_front() {
    if (++first_ < items_.size()) return;
    items_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;  // index of the front; items before it are gone
};

}  // namespace meshwright::exec
