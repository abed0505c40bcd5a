// Knows which communication has not ended yet, when a program asks for the event after it.
//
// PyTorch 2.15 lets no stream wait for a communication that has ended already. If every event were
// reached at once, the log would not tell which work needs which communication.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace meshwright::stand_in {

class InFlight {
 public:
  // Notes that a stream waits for an event. The event counts as reached. A communication that comes
  // next on the stream overlaps with other streams, so it is in flight.
  void waited(std::uint64_t stream, std::uint64_t event);
  void communicated(std::uint64_t stream);
  void recorded(std::uint64_t stream, std::uint64_t event);

  void ended(std::uint64_t event);
  void ended_on(std::uint64_t stream);
  void all_ended();

  bool holds(std::uint64_t event);

 private:
  enum class Last : std::uint8_t { other, wait, communication };

  std::mutex lock_;
  std::map<std::uint64_t, Last> streams_;  // what came last on each stream
  // Has an event that is not reached yet: its stream, and the number of its record among all
  // records.
  struct Under {
    std::uint64_t stream, record;
  };
  std::map<std::uint64_t, Under> under_;
  // Has the events and the numbers of their records, oldest first.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_;
  std::uint64_t records_ = 0;
};

InFlight& in_flight();

}  // namespace meshwright::stand_in
