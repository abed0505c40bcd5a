// Holds the events of a discrete-event simulation. Time is an integer (picoseconds), and
// simultaneous events come out in the order in which they were scheduled, so a run repeats exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "models/core/units.h"

namespace meshwright::sim {

// An event of a simulation. Only the code that schedules it gives it a meaning: `kind` selects one
// of that code's cases, and `a` and `b` are its operands.
struct Event {
  SimTime time = 0;
  std::uint64_t sequence = 0;
  std::int32_t kind = 0;
  std::int32_t a = 0;
  std::int32_t b = 0;

  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : sequence > other.sequence;
  }
};

class EventQueue {
 public:
  SimTime now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  void at(SimTime time, std::int32_t kind, std::int32_t a = 0,
          std::int32_t b = 0);  // `time` must not be before now()
  void after(SimTime delay, std::int32_t kind, std::int32_t a = 0, std::int32_t b = 0) {
    at(now_ + delay, kind, a, b);
  }
  SimTime next_time() const { return heap_.front().time; }  // the queue must not be empty
  Event pop();  // removes the earliest event; its time becomes now()
  void reserve(std::size_t events) { heap_.reserve(events); }

 private:
  std::vector<Event> heap_;
  SimTime now_ = 0;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace meshwright::sim
