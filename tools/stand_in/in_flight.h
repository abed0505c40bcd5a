// Which communication has not ended yet, as a program may ask of the event after it.
//
// PyTorch 2.15 lets no stream wait for a communication that has ended already. If every event were
// at its end, the log would not say what needs which communication.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace meshwright::stand_in {

class InFlight {
 public:
  // A stream waits for an event: what is communicated on it next runs beside the stream that
  // recorded the event, and the event itself is reached.
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
  std::map<std::uint64_t, Last> streams_;  // what came last on each
  // An event that is not reached: its stream, and which of all records of events it is.
  struct Under {
    std::uint64_t stream, record;
  };
  std::map<std::uint64_t, Under> under_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_;  // events and records, oldest first
  std::uint64_t records_ = 0;
};

InFlight& in_flight();

}  // namespace meshwright::stand_in
