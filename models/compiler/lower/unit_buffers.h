// Manages the buffers that sharded units use round-robin, and one buffer for weights or gradients
// that several units share. Knows which unit has which buffer at the moment.
#pragma once

#include <algorithm>
#include <vector>

#include "models/compiler/lower/buckets.h"

namespace meshwright::compiler {

class UnitBuffers {
 public:
  UnitBuffers() = default;
  UnitBuffers(std::size_t units, std::vector<int> in_turn, int shared)
      : in_turn_(std::move(in_turn)), shared_(shared), slot_of_(units, -1) {}

  int count() const { return static_cast<int>(in_turn_.size()); }
  std::size_t size() const { return size_; }   // buffers that this body uses round-robin
  std::size_t taken() const { return next_; }  // how often a buffer was given out in this body
  // Begins a body: no unit has a buffer, the first buffer comes next, and at most `most` buffers
  // are used.
  void begin(int most) {
    std::fill(slot_of_.begin(), slot_of_.end(), -1);
    next_ = 0;
    size_ = std::min(in_turn_.size(), static_cast<std::size_t>(most));
  }
  // Gives the next buffer to the unit. The unit that had it loses it.
  void take(int unit) {
    if (unit == shared_unit) return;
    const int slot = static_cast<int>(next_++ % size_);
    std::replace(slot_of_.begin(), slot_of_.end(), slot, -1);
    slot_of_[unit] = slot;
  }
  // Returns the buffer that take() gives out next if a unit has had that buffer since begin(), else
  // -1.
  int reused_next() const { return next_ < size_ ? -1 : in_turn_[next_ % size_]; }
  int of(int unit) const {  // the unit's buffer, or -1
    if (unit == shared_unit) return shared_;
    const int slot = slot_of_[unit];
    return slot < 0 ? -1 : in_turn_[slot];
  }

 private:
  std::vector<int> in_turn_;
  int shared_ = -1;
  std::vector<int> slot_of_;
  std::size_t next_ = 0, size_ = 0;
};

}  // namespace meshwright::compiler
