#include "exec/runtime/trace_times.h"

namespace meshwright::exec {

void TraceTimes::begin_step() {
  if (!on_ || streams_ == nullptr) return;
  streams_->begin_stamps();
  stamps_begin_ = now();
}

void TraceTimes::end_step() {
  if (!on_ || streams_ == nullptr) return;
  const auto time_of = [&](SimTime stamp) {
    return stamps_begin_ + to_sim_time(Seconds{streams_->stamped(static_cast<int>(stamp))});
  };
  for (TimelineEntry& entry : timeline.entries) {
    entry.begin = time_of(entry.begin);
    entry.end = time_of(entry.end);
  }
}

SimTime TraceTimes::moment() {
  if (!on_) return 0;
  return streams_ == nullptr ? now() : SimTime{streams_->stamp()};
}

std::size_t TraceTimes::note(const RunId& run, SimTime begin) {
  if (!on_) return 0;
  timeline.entries.push_back({rank_, run.task, run.instruction, begin, moment()});
  return timeline.entries.size() - 1;
}

void TraceTimes::end(std::size_t entry) {
  if (on_) timeline.entries[entry].end = moment();
}

SimTime TraceTimes::now() const {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  return to_sim_time(Seconds{since.count()});
}

}  // namespace meshwright::exec
