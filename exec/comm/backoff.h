// Waiting for other ranks: it spins briefly and then gives the processor away, since there may be
// more ranks than cores, until a deadline.
#pragma once

#include <chrono>
#include <functional>

namespace meshwright {

// Spins, then yields, then sleeps a little; calls `progress` meanwhile.
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
  double waited_s_ = 0;  // asleep; what comes before takes no time
  std::chrono::steady_clock::time_point latest_;
};

}  // namespace meshwright
