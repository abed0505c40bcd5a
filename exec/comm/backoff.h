// Waits for other ranks up to a deadline. Since there may be more ranks than cores, it spins only
// briefly and then gives the processor away.
#pragma once

#include <chrono>
#include <functional>

namespace meshwright::exec {

// pause() is called in a loop until the awaited event has come. The first calls spin, the next ones
// yield, and later ones sleep for at least 10 microseconds. Calls that yield or sleep also call
// `progress`.
class Backoff {
 public:
  Backoff(const std::function<void()>& progress, double deadline_s)
      : progress_(progress), deadline_s_(deadline_s) {}
  [[nodiscard]] bool pause();  // false: the deadline is over

 private:
  bool is_over();

  const std::function<void()>& progress_;
  double deadline_s_;
  int count_ = 0;
  double waited_s_ = 0;  // counts from the first sleep on (see is_over)
  std::chrono::steady_clock::time_point latest_;
};

}  // namespace meshwright::exec
