#include "exec/comm/nccl_watch.h"

#include <algorithm>
#include <cstdio>

namespace meshwright::exec {

NcclWatch::NcclWatch(int rank, double deadline_s, std::function<void(int)> leave)
    : rank_(rank),
      deadline_s_(deadline_s),
      leave_(std::move(leave)),
      thread_([this] { watch(); }) {}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void NcclWatch::add(NcclLink& link) {
  const std::lock_guard lock(mutex_);
  links_.push_back(&link);
}

void NcclWatch::remove(NcclLink& link) {
  const std::lock_guard lock(mutex_);
  std::erase(links_, &link);
}

void NcclWatch::watch() {
  const std::chrono::duration<double> pause(std::min(0.2, deadline_s_ / 10));
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, pause, [this] { return is_over_; })) look();
}

void NcclWatch::look() {
  constexpr int run_failed = 4;  // exit code
  const auto now = NcclLink::Clock::now();
  for (NcclLink* link : links_) {
    const std::optional<NcclLink::Trouble> trouble = link->trouble(now, deadline_s_);
    if (!trouble) continue;
    if (trouble->is_late)
      std::fprintf(stderr, "rank %d failed: %s took more than %g s\n", rank_, trouble->what.c_str(),
                   deadline_s_);
    else
      std::fprintf(stderr, "rank %d failed: %s\n", rank_, trouble->what.c_str());
    leave_(run_failed);
  }
}

}  // namespace meshwright::exec
