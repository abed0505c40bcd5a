#include "exec/comm/backoff.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace meshwright {

bool Backoff::pause() {
  // Sleeping comes soon: a process that only yields is put behind busy ones for whole time slices
  // (milliseconds), one that sleeps is woken at once.
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

// A process that was itself stopped for a while has not waited meanwhile.
bool Backoff::is_over() {
  constexpr double longest_pause_s = 0.5;
  const auto now = std::chrono::steady_clock::now();
  if (latest_ != std::chrono::steady_clock::time_point())
    waited_s_ += std::min(std::chrono::duration<double>(now - latest_).count(), longest_pause_s);
  latest_ = now;
  return waited_s_ > deadline_s_;
}

}  // namespace meshwright
