// Takes the time of every instruction of a step, if a trace is wanted.
#pragma once

#include <chrono>
#include <cstddef>

#include "exec/backends/streams.h"
#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::exec {

class TraceTimes {
 public:
  // `streams` may be null: then an instruction is over when its call returns.
  TraceTimes(int rank, Streams* streams, bool on) : on_(on), rank_(rank), streams_(streams) {}

  bool on() const { return on_; }
  void turn(bool on) { on_ = on; }
  // Moments are counted from this call on.
  void start() { start_ = std::chrono::steady_clock::now(); }

  // All of the following do nothing, and return 0, while no trace is wanted.

  // Called before the first instruction of a step, and when all of them are complete.
  void begin_step();
  void end_step();
  // Returns the current moment. On a device with streams it is the number of a stamp until the
  // step's end.
  SimTime moment();
  // Adds an instruction that began at `begin` and ends now. Returns its entry.
  std::size_t note(const RunId& run, SimTime begin);
  void end(std::size_t entry);  // sets the end to now

  Timeline timeline;  // the latest step's, in picoseconds

 private:
  SimTime now() const;

  bool on_;
  int rank_;
  Streams* streams_;
  SimTime stamps_begin_ = 0;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace meshwright::exec
