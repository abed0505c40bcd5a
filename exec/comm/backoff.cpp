#include "exec/comm/backoff.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace meshwright::exec {

bool Backoff::pause() {
  // Sleeping comes soon, because the system wakes a sleeping process at once. A process that only
  // yields waits behind busy ones for whole time slices (milliseconds).
  constexpr int spins = 64, yields = 500;
  constexpr unsigned sleep_us = 10;
  if (++count_ <= spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    return true;
  }
  progress_();
  if (count_ <= yields) {
    sched_yield();
    return true;
  }
  usleep(sleep_us);
  return !is_over();
}

// Returns whether the deadline has passed. Counts at most 0.5 s between two calls, so that a
// suspended process does not use up its deadline while it is stopped.
bool Backoff::is_over() {
  constexpr double longest_pause_s = 0.5;
  const auto now = std::chrono::steady_clock::now();
  if (latest_ != std::chrono::steady_clock::time_point())
    waited_s_ += std::min(std::chrono::duration<double>(now - latest_).count(), longest_pause_s);
  latest_ = now;
  return waited_s_ > deadline_s_;
}

}  // namespace meshwright::exec
