#include "sim/replay/flights.h"

#include <algorithm>
#include <cmath>

#include "models/core/error.h"

namespace meshwright::sim {

void Flights::use_ports(const Member& member, int sign) {
  RankState& own = rank(member.rank);
  std::int32_t any = 0;
  for (std::size_t port = 0; port < port_count; ++port) {
    any |= (*member.loads)[port];
    own.used[port] += sign * (*member.loads)[port];
  }
  if (member.computes) own.computing += sign;
  const bool shares =
      member.computes && kernels_ == Kernels::shared && own.computing > (sign > 0 ? 1 : 0);
  if ((any == 0 && !shares) || own.changed) return;
  own.changed = true;
  changed_.push_back(member.rank);
}

void Flights::add(std::span<const Member> members, SimTime begin, SimTime lasts) {
  if (ended_ >= 0) free_.push_back(ended_), ended_ = -1;
  int id = static_cast<int>(flights_.size());
  if (free_.empty()) {
    flights_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flight& added = flight(id);
  added.members.assign(members.begin(), members.end());
  added.left = lasts;
  added.since = begin;
  added.rate = 0;
  bool settled_later = false;
  for (std::size_t m = 0; m < members.size(); ++m) {
    use_ports(members[m], 1);
    rank(members[m].rank).under_way.push_back({id, static_cast<int>(m)});
    added.members[m].rate = rate_of(members[m]);
    settled_later = settled_later || rank(members[m].rank).changed;
  }
  if (!settled_later) set_rate(id);
}

// Rates are found once for each instant, when everything that begins or ends in it is known.
// Therefore the order of events within an instant makes no difference.
std::span<const Flights::Member> Flights::next() {
  for (;;) {
    if (ends_.empty() || ends_.next_time() > now()) settle();
    if (ends_.empty()) return {};
    const Event end = ends_.pop();
    if (flight(end.a).version == end.kind) return take_out(end.a);
  }
}

std::span<const Flights::Member> Flights::take_out(int id) {
  Flight& ending = flight(id);
  ++ending.version;
  for (const Member& member : ending.members) {
    std::erase_if(rank(member.rank).under_way,
                  [&](const Place& place) { return place.flight == id; });
    use_ports(member, -1);
  }
  if (ended_ >= 0) free_.push_back(ended_);
  ended_ = id;
  return ending.members;
}

double Flights::rate_of(const Member& member) {
  const auto& used = rank(member.rank).used;
  if (member.computes) {
    const std::int64_t nvlink = used[static_cast<std::size_t>(Port::nvlink_out)];
    const int at_once = kernels_ == Kernels::shared ? std::max(1, rank(member.rank).computing) : 1;
    return 1 / (1 + slowdown_ * std::min(1.0, static_cast<double>(nvlink) / whole_port)) / at_once;
  }
  std::int64_t most = whole_port;
  for (std::size_t port = 0; port < port_count; ++port)
    if ((*member.loads)[port] > 0) most = std::max(most, used[port]);
  return static_cast<double>(whole_port) / static_cast<double>(most);
}

void Flights::settle() {
  for (const int id : changed_)
    for (const Place& place : rank(id).under_way) {
      Member& member = flight(place.flight).members[place.member];
      member.rate = rate_of(member);
    }
  for (const int id : changed_) {
    for (const Place& place : rank(id).under_way) set_rate(place.flight);
    rank(id).changed = false;
  }
  changed_.clear();
}

void Flights::set_rate(int id) {
  Flight& changed = flight(id);
  double rate = 1;
  for (const Member& member : changed.members) rate = std::min(rate, member.rate);
  if (rate == changed.rate) return;
  if (changed.rate > 0 && now() > changed.since) {
    const SimTime done = std::llround(static_cast<double>(now() - changed.since) * changed.rate);
    changed.left = std::max<SimTime>(0, changed.left - done);
    changed.since = now();
  }
  changed.rate = rate;
  constexpr double longest = 8e18;  // 92 days in picoseconds; one more run still fits
  const double lasts = static_cast<double>(changed.left) / rate;
  if (static_cast<double>(changed.since) + lasts > longest)
    throw InputError("the step would take more than 92 days of simulated time");
  ++changed.version;
  ends_.at(changed.since + (rate == 1 ? changed.left : std::llround(lasts)), changed.version, id);
}

}  // namespace meshwright::sim
