#include "tools/stand_in/in_flight.h"

namespace meshwright::stand_in {

namespace {

// A communication that nobody waits for ends some time. A step leaves fewer than these open.
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
  if (last != Last::communication) return;  // the begin of a communication has an event too
  last = Last::other;
  under_[event] = {stream, ++records_};
  order_.emplace_back(event, records_);
  if (order_.size() <= most) return;
  // PyTorch uses few events again and again: the oldest record may be of one that is newer too.
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
