#include "exec/comm/watchdog.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace meshwright::exec {

Watchdog::Watchdog(double deadline_s, std::string doing, int rank)
    : deadline_s_(deadline_s),
      doing_(std::move(doing)),
      rank_(rank),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

// Counts short waits instead of clock time, so that a suspended process does not use up its
// deadline while it is stopped.
bool Watchdog::ends_in_time(std::unique_lock<std::mutex>& lock) {
  constexpr double longest_wait_s = 0.5;
  for (double left_s = deadline_s_; left_s > 0; left_s -= longest_wait_s) {
    const std::chrono::duration<double> wait(std::min(left_s, longest_wait_s));
    if (ended_.wait_for(lock, wait, [this] { return is_over_; })) return true;
  }
  return false;
}

void Watchdog::watch() {
  constexpr int run_failed = 4;  // exit code
  std::unique_lock lock(mutex_);
  if (ends_in_time(lock)) return;
  const std::string who = rank_ < 0 ? "a rank" : "rank " + std::to_string(rank_);
  std::fprintf(stderr, "%s failed: %s took more than %g s\n", who.c_str(), doing_.c_str(),
               deadline_s_);
  std::fflush(nullptr);
  // Leaves the other ranks 1 s for their own messages, because they are stopped when this rank
  // ends.
  ended_.wait_for(lock, std::chrono::seconds(1), [] { return false; });
  std::_Exit(run_failed);
}

}  // namespace meshwright::exec
