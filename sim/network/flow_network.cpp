#include "sim/network/flow_network.h"

#include <algorithm>
#include <cmath>

#include "models/core/error.h"

namespace meshwright {

namespace {

constexpr double ps_per_s = 1e12;
constexpr double longest_ps = 8e18;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

FlowNetwork::FlowNetwork() { add_link(no_limit); }

int FlowNetwork::add_link(double bytes_per_s) {
  MESHWRIGHT_CHECK(bytes_per_s > 0, "a link has a capacity");
  Link link;
  link.capacity = bytes_per_s;
  links_.push_back(std::move(link));
  levels_.push_back(no_limit);
  rooms_.emplace_back();
  place_in_ends_.push_back(-1);
  return static_cast<int>(links_.size()) - 2;
}

int FlowNetwork::start(std::span<const int> route, double bytes, SimTime now, double copies) {
  MESHWRIGHT_CHECK(bytes >= 0 && copies > 0, "a flow has bytes");
  advance(now);
  int id = static_cast<int>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
    place_in_link_.push_back(-1);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& own = flow(id);
  own.copies = copies;
  reserve_hops(own, route.size());
  int lowest = nowhere;
  for (std::size_t i = 0; i < route.size(); ++i) {
    const int each = route[i] + 1;
    hop(own.first_hop + static_cast<int>(i)) = {each, id};
    if (level(each) < level(lowest)) lowest = each;
    link(each).copies += copies;
    queue(each);
  }
  hold(id, lowest, bytes);
  for (int i = own.first_hop; i < own.first_hop + own.hops; ++i)
    if (hop(i).link != lowest) attach(i, lowest);
  return id;
}

// Hops of flows that have left serve for routes of the same length.
void FlowNetwork::reserve_hops(Flow& own, std::size_t hops) {
  if (free_hops_.size() <= hops) free_hops_.resize(hops + 1);
  own.hops = static_cast<int>(hops);
  if (free_hops_[hops].empty()) {
    own.first_hop = static_cast<int>(hops_.size());
    hops_.resize(hops_.size() + hops);
  } else {
    own.first_hop = free_hops_[hops].back();
    free_hops_[hops].pop_back();
  }
}

double FlowNetwork::remove(int id, SimTime now) {
  advance(now);
  settle();
  const Flow& own = flow(id);
  for (int i = own.first_hop; i < own.first_hop + own.hops; ++i) {
    link(hop(i).link).copies -= own.copies;
    if (hop(i).link != own.bottleneck) detach(i);
    queue(hop(i).link);
  }
  const double left = let_go(id);
  free_hops_[at(own.hops)].push_back(own.first_hop);
  free_.push_back(id);
  return own.hops == 0 ? 0 : left;
}

std::optional<FlowNetwork::Completion> FlowNetwork::next_completion() {
  settle();
  if (ends_.empty()) return std::nullopt;
  const KeyedHeap::Item& first = ends_.first();
  return Completion{static_cast<SimTime>(std::llround(std::max(first.key, now_))), first.tie};
}

double FlowNetwork::rate(int id) {
  settle();
  return level(flow(id).bottleneck);
}

// What has changed at one instant is settled at once, before time goes on.
void FlowNetwork::advance(SimTime now) {
  const double time = static_cast<double>(now);
  if (time == now_) return;
  MESHWRIGHT_CHECK(time > now_, "time does not go back");
  settle();
  now_ = time;
}

void FlowNetwork::settle() {
  settle_levels();
  for (const int id : old_ends_) find_end(id);
  old_ends_.clear();
}

void FlowNetwork::move(int id, int to) {
  const Flow& own = flow(id);
  const int from = own.bottleneck;
  hold(id, to, let_go(id));
  for (int i = own.first_hop; i < own.first_hop + own.hops; ++i) {
    if (hop(i).link != from) detach(i);
    if (hop(i).link != to) attach(i, to);
  }
}

void FlowNetwork::hold(int id, int bottleneck, double bytes) {
  Link& own = link(bottleneck);
  count_until_now(bottleneck);
  flow(id).bottleneck = bottleneck;
  own.held_copies += flow(id).copies;
  own.held.push({own.carried + bytes, id, id}, place_in_link_);
}

double FlowNetwork::let_go(int id) {
  const int from = flow(id).bottleneck;
  Link& own = link(from);
  count_until_now(from);
  const double end = own.held.items()[at(place_in_link_[at(id)])].key;
  const double left = std::max(0.0, end - own.carried);
  own.held.erase(id, place_in_link_);
  own.held_copies -= flow(id).copies;
  if (own.held.empty()) own.held_copies = own.carried = 0;
  return left;
}

// Before the level of a link changes, or the flows that it holds back.
void FlowNetwork::count_until_now(int id) {
  Link& own = link(id);
  if (level(id) < no_limit) own.carried += level(id) * (now_ - own.since) / ps_per_s;
  own.since = now_;
  if (own.is_end_old) return;
  own.is_end_old = true;
  old_ends_.push_back(id);
}

void FlowNetwork::find_end(int id) {
  Link& own = link(id);
  own.is_end_old = false;
  const bool was_held = place_in_ends_[at(id)] >= 0;
  if (own.held.empty()) {
    if (was_held) ends_.erase(id, place_in_ends_);
    return;
  }
  const KeyedHeap::Item& first = own.held.first();
  const double left_s = id == nowhere ? 0 : (first.key - own.carried) / level(id);
  const KeyedHeap::Item end{std::min(longest_ps, own.since + left_s * ps_per_s), first.id, id};
  if (was_held)
    ends_.replace(end, place_in_ends_);
  else
    ends_.push(end, place_in_ends_);
}

}  // namespace meshwright
