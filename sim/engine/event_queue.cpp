#include "sim/engine/event_queue.h"

#include <algorithm>
#include <functional>

#include "models/core/error.h"

namespace meshwright::sim {

void EventQueue::at(SimTime time, std::int32_t kind, std::int32_t a, std::int32_t b) {
  MESHWRIGHT_CHECK(time >= now_, "an event cannot be scheduled in the past");
  heap_.push_back({time, next_sequence_++, kind, a, b});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

Event EventQueue::pop() {
  MESHWRIGHT_CHECK(!heap_.empty(), "the queue has no event left");
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.time;
  return event;
}

}  // namespace meshwright::sim
