#include "tools/stand_in/in_flight.h"

namespace meshwright::stand_in {

namespace {

// Limits the records that are remembered. The communication of an older record counts as ended.
constexpr std::size_t most = 1024;

}  // namespace

void InFlight::waited(std::uint64_t stream, std::uint64_t event) {
  const std::lock_guard guard(lock_);
  streams_[stream] = Last::wait;
  under_.erase(event);
}

void InFlight::communicated(std::uint64_t stream) {
  const std::lock_guard guard(lock_);
  Last& last = streams_[stream];
  last = last == Last::other ? Last::other : Last::communication;
}

void InFlight::recorded(std::uint64_t stream, std::uint64_t event) {
  const std::lock_guard guard(lock_);
  under_.erase(event);
  Last& last = streams_[stream];
  if (last != Last::communication) return;  // an event before a communication is reached at once
  last = Last::other;
  under_[event] = {stream, ++records_};
  order_.emplace_back(event, records_);
  if (order_.size() <= most) return;
  // PyTorch reuses its events, so the event of the oldest record may have a newer record.
  const auto [oldest, record] = order_.front();
  const auto found = under_.find(oldest);
  if (found != under_.end() && found->second.record == record) under_.erase(found);
  order_.pop_front();
}

void InFlight::ended(std::uint64_t event) {
  const std::lock_guard guard(lock_);
  under_.erase(event);
}

void InFlight::ended_on(std::uint64_t stream) {
  const std::lock_guard guard(lock_);
  std::erase_if(under_, [&](const auto& each) { return each.second.stream == stream; });
}

void InFlight::all_ended() {
  const std::lock_guard guard(lock_);
  under_.clear();
}

bool InFlight::holds(std::uint64_t event) {
  const std::lock_guard guard(lock_);
  return under_.contains(event);
}

InFlight& in_flight() {
  static auto* const the = new InFlight;  // threads may ask while the process ends
  return *the;
}

}  // namespace meshwright::stand_in
