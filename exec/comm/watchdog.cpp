#include "exec/comm/watchdog.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace meshwright {

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

void Watchdog::watch() {
  constexpr int run_failed = 4;  // exit code
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::duration<double>(deadline_s_);
  if (ended_.wait_for(lock, deadline, [this] { return is_over_; })) return;
  const std::string who = rank_ < 0 ? "a rank" : "rank " + std::to_string(rank_);
  std::fprintf(stderr, "%s failed: %s took more than %g s\n", who.c_str(), doing_.c_str(),
               deadline_s_);
  std::fflush(nullptr);
  // The others may have something to say too, before this rank's end is theirs.
  ended_.wait_for(lock, std::chrono::seconds(1), [] { return false; });
  std::_Exit(run_failed);
}

}  // namespace meshwright
