// How far a command is that takes longer than two seconds, on a terminal: one line on standard
// error, written over and over.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace meshwright {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `share` of all is done; what the rest takes follows from that. At 1 the line ends. `what`: what
  // is under way. Any thread may call.
  void at(double share, const std::string& what);

 private:
  void end();

  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  const bool on_terminal_;
  const Clock::time_point begin_;
  Clock::time_point shown_;
  bool is_shown_ = false;
};

}  // namespace meshwright
