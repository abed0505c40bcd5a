#include "sim/network/flow_network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/core/error.h"

namespace meshwright {

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr double ps_per_s = 1e12;
constexpr double longest_ps = 8e18;
// Levels that differ by rounding alone are one: by so much of the level and of the capacity.
constexpr double rounding_of_level = 1e-13, rounding_of_capacity = 1e-15;
constexpr std::size_t heap_arity = 4;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool differ(double a, double b, double capacity) {
  const double rounding = rounding_of_level * std::min(a, b) + rounding_of_capacity * capacity;
  return a != b && !(std::abs(a - b) <= rounding);
}

}  // namespace

int FlowNetwork::add_link(double bytes_per_s) {
  MESHWRIGHT_CHECK(bytes_per_s > 0, "a link has a capacity");
  Link link;
  link.capacity = bytes_per_s;
  link.level = no_limit;
  links_.push_back(std::move(link));
  return static_cast<int>(links_.size()) - 1;
}

int FlowNetwork::start(std::span<const int> route, double bytes, SimTime now, double copies) {
  MESHWRIGHT_CHECK(bytes >= 0 && copies > 0, "a flow has bytes");
  advance(now);
  int id = static_cast<int>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& own = flow(id);
  own.hops.clear();
  for (const int each : route) {
    Link& shared = link(each);
    own.hops.push_back({each, static_cast<int>(shared.flows.size())});
    shared.flows.push_back({id, static_cast<int>(own.hops.size()) - 1});
    queue(each);
  }
  own.left = bytes;
  own.copies = copies;
  own.rate = no_limit;
  for (const Hop& hop : own.hops) own.rate = std::min(own.rate, link(hop.link).level);
  own.used_rate = 0;
  own.since = now_;
  own.end = longest_ps;
  place_in_heap(id, heap_.size());
  touch(id);
  return id;
}

double FlowNetwork::remove(int id, SimTime now) {
  advance(now);
  settle();
  Flow& own = flow(id);
  const double left = std::max(0.0, own.left - own.used_rate * (now_ - own.since) / ps_per_s);
  for (const Hop& hop : own.hops) {
    std::vector<Visit>& flows = link(hop.link).flows;
    const Visit last = flows.back();
    flows[at(hop.place)] = last;
    flow(last.flow).hops[at(last.hop)].place = hop.place;
    flows.pop_back();
    queue(hop.link);
  }
  erase_from_heap(id);
  free_.push_back(id);
  return left;
}

std::optional<FlowNetwork::Completion> FlowNetwork::next_completion() {
  settle();
  if (heap_.empty()) return std::nullopt;
  const int first = heap_.front();
  return Completion{static_cast<SimTime>(std::llround(std::max(flow(first).end, now_))), first};
}

double FlowNetwork::rate(int id) {
  settle();
  return flow(id).rate;
}

// What has changed at one instant is settled at once, before time goes on.
void FlowNetwork::advance(SimTime now) {
  const double time = static_cast<double>(now);
  if (time == now_) return;
  MESHWRIGHT_CHECK(time > now_, "time does not go back");
  settle();
  now_ = time;
}

void FlowNetwork::queue(int id) {
  Link& own = link(id);
  if (own.queued) return;
  own.queued = true;
  queue_.push_back(id);
}

void FlowNetwork::touch(int id) {
  if (flow(id).touched) return;
  flow(id).touched = true;
  touched_.push_back(id);
}

void FlowNetwork::settle() {
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    Link& own = link(queue_[next]);
    own.queued = false;
    if (own.flows.empty())
      own.level = no_limit;
    else if (const double level = level_of(own); differ(level, own.level, own.capacity))
      set_level(own, level);
  }
  queue_.clear();
  for (const int id : touched_) {
    flow(id).touched = false;
    if (flow(id).heap_place < 0 || flow(id).rate == flow(id).used_rate) continue;
    use_rate(flow(id));
    sift(id);
  }
  touched_.clear();
}

double FlowNetwork::lowest_level_beside(const Flow& own, int hop) const {
  double lowest = no_limit;
  for (int i = 0; i < std::ssize(own.hops); ++i)
    if (i != hop) lowest = std::min(lowest, links_[at(own.hops[at(i)].link)].level);
  return lowest;
}

// Flows that get less elsewhere take that; the others share what they leave.
double FlowNetwork::level_of(const Link& own) {
  elsewhere_.clear();
  double sharing = 0;
  for (const Visit& visit : own.flows) {
    const Flow& each = flow(visit.flow);
    elsewhere_.push_back(each.rate < own.level ? each.rate : lowest_level_beside(each, visit.hop));
    sharing += each.copies;
  }
  double left = own.capacity, level = left / sharing;
  for (std::size_t remain = elsewhere_.size(), before = 0; remain != before;) {
    before = remain;
    for (std::size_t i = 0; i < elsewhere_.size(); ++i) {
      if (!(elsewhere_[i] < level)) continue;
      const double copies = flow(own.flows[i].flow).copies;
      left -= copies * elsewhere_[i];
      sharing -= copies;
      elsewhere_[i] = no_limit;
      --remain;
    }
    if (remain == 0) return no_limit;
    level = left / sharing;
  }
  return level;
}

// The other links of a flow look again where its rate changes.
void FlowNetwork::set_level(Link& own, double level) {
  const double before = own.level;
  own.level = level;
  for (const Visit& visit : own.flows) {
    Flow& each = flow(visit.flow);
    if (each.rate < before && each.rate <= level) continue;  // held back elsewhere, and still is
    const double rate = std::min(level, lowest_level_beside(each, visit.hop));
    if (rate == each.rate) continue;
    each.rate = rate;
    touch(visit.flow);
    for (const Hop& hop : each.hops)
      if (&link(hop.link) != &own) queue(hop.link);
  }
}

void FlowNetwork::use_rate(Flow& own) {
  if (own.used_rate > 0) own.left -= own.used_rate * (now_ - own.since) / ps_per_s;
  own.left = std::max(0.0, own.left);
  own.used_rate = own.rate;
  own.since = now_;
  own.end = std::min(longest_ps, now_ + own.left / own.rate * ps_per_s);
}

bool FlowNetwork::earlier(int a, int b) const {
  const double x = flows_[at(a)].end, y = flows_[at(b)].end;
  return x != y ? x < y : a < b;
}

void FlowNetwork::place_in_heap(int id, std::size_t place) {
  if (place == heap_.size()) heap_.push_back(id);
  heap_[place] = id;
  flow(id).heap_place = static_cast<int>(place);
}

void FlowNetwork::sift(int id) {
  std::size_t place = at(flow(id).heap_place);
  while (place > 0 && earlier(id, heap_[(place - 1) / heap_arity])) {
    place_in_heap(heap_[(place - 1) / heap_arity], place);
    place = (place - 1) / heap_arity;
  }
  for (;;) {
    const std::size_t first = place * heap_arity + 1;
    std::size_t best = first;
    for (std::size_t child = first + 1; child < std::min(first + heap_arity, heap_.size()); ++child)
      if (earlier(heap_[child], heap_[best])) best = child;
    if (best >= heap_.size() || !earlier(heap_[best], id)) break;
    place_in_heap(heap_[best], place);
    place = best;
  }
  place_in_heap(id, place);
}

void FlowNetwork::erase_from_heap(int id) {
  const std::size_t place = at(flow(id).heap_place);
  const int last = heap_.back();
  heap_.pop_back();
  flow(id).heap_place = -1;
  if (last == id) return;
  place_in_heap(last, place);
  sift(last);
}

}  // namespace meshwright
