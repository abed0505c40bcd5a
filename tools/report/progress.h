// Shows how far a command is that takes longer than two seconds: one line on standard error,
// rewritten at most five times a second. Shows nothing if standard error is not a terminal.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace meshwright::tools {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows that `share` (0 to 1) of the work is done, and the time that the rest takes at the same
  // rate. `what` names the current work. At 1, the line is cleared. Any thread may call it.
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

}  // namespace meshwright::tools
