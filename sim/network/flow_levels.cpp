// How the levels of a FlowNetwork settle after flows have come or gone.
#include <algorithm>

#include "sim/network/flow_network.h"

namespace meshwright {

namespace {

// Levels that differ by rounding alone are one: by so much of the level and of the capacity.
constexpr double rounding_of_level = 1e-13, rounding_of_capacity = 1e-15;
// A link that is not full is watched until all its flows get less than so much of an equal share.
constexpr double unwatched_share = 0.9;

bool is_below(double a, double b, double capacity) {
  return a < b && b - a > rounding_of_level * a + rounding_of_capacity * capacity;
}

}  // namespace

// The lowest first, since no level depends on higher ones. It would come to an end in any order in
// which all links have their turn: the links of the lowest level are right from the moment when
// they are looked at, then those of the next.
void FlowNetwork::settle_levels() {
  std::size_t next_not_full = 0;
  while (!full_queue_.empty() || next_not_full < not_full_queue_.size()) {
    const int id = full_queue_.empty() ? not_full_queue_[next_not_full++] : full_queue_.pop();
    room(id).queued = false;
    settle_level(id);
  }
  not_full_queue_.clear();
}

// Flows that another of their links holds back to less go over to that one.
void FlowNetwork::settle_level(int id) {
  Link& own = link(id);
  const double before = level(id);
  double found = level_of(id);
  for (int lower; found > before && (lower = lower_crosser(id, found)) >= 0; found = level_of(id))
    for (int each = crossing(lower).first_hop, next; each >= 0; each = next) {
      next = hop(each).next;
      const int moved = hop(each).flow;
      move(moved, lowest_beside(flow(moved), id));
      queue_changed(flow(moved), id);
    }
  if (is_below(found, before, own.capacity) || is_below(before, found, own.capacity))
    set_level(id, found);
  if (level(id) == no_limit || !own.watched) watch_where_needed(id);
}

// Flows that get less elsewhere take that, and the others share what they leave: where nothing else
// holds back those that are held back here.
double FlowNetwork::level_of(int id) {
  Link& own = link(id);
  double left = own.capacity, highest = 0;
  for (const Beside& each : own.beside) {
    const double rate = levels_[static_cast<std::size_t>(each.bottleneck)];
    left -= each.copies * rate;
    highest = std::max(highest, rate);
  }
  own.highest_beside = highest;
  room(id).left = left;
  if (own.held_copies == 0 && left >= 0) return no_limit;
  room(id).left = -no_limit;
  if (own.held_copies > 0 && highest * own.held_copies <= left) return left / own.held_copies;
  // From the equal share of all upwards, since it rises with each that takes less.
  for (double share = own.capacity / own.copies;;) {
    double sharing = own.held_copies;
    left = own.capacity;
    for (const Beside& each : own.beside) {
      const double rate = levels_[static_cast<std::size_t>(each.bottleneck)];
      const bool less = rate < share;
      left -= less ? each.copies * rate : 0;
      sharing += less ? 0 : each.copies;
    }
    if (sharing == 0) return no_limit;
    if (!(left / sharing > share)) return share;
    share = left / sharing;
  }
}

// Flows that get more elsewhere come over. Other links of flows whose rate changes look again: full
// ones in any case, watched ones where their room is used up, the rest above an equal share.
void FlowNetwork::set_level(int id, double found) {
  Link& own = link(id);
  count_until_now(id);
  const double before = level(id);
  level(id) = found;
  for (std::size_t i = found < before ? own.beside.size() : 0; i-- > 0;) {
    if (!is_below(found, level(own.beside[i].bottleneck), own.capacity)) continue;
    for (int each = crossing(own.beside[i].crossing).first_hop, next; each >= 0; each = next) {
      next = hop(each).next;
      const int moved = hop(each).flow;
      queue(flow(moved).bottleneck);
      queue_changed(flow(moved), id);
      move(moved, id);
    }
  }
  const double rise = std::max(0.0, found - before);
  // Which of them must look again is hard to foresee: no branch. Each is there once.
  if (to_queue_.size() < own.crossers.size()) to_queue_.resize(own.crossers.size());
  std::size_t count = 0;
  for (const Crosser& each : own.crossers) {
    Room& crossed = room(each.link);
    crossed.left -= each.copies * rise;
    to_queue_[count] = each.link;
    count += static_cast<std::size_t>(crossed.left < 0) & static_cast<std::size_t>(!crossed.queued);
  }
  for (std::size_t i = 0; i < count; ++i) queue_now(to_queue_[i]);
  if (found > own.unwatched_above) queue_unwatched_below(id, found);
}

// Where flows held back here cross a link of a lower level; -1: nowhere.
int FlowNetwork::lower_crosser(int id, double found) {
  for (const Crosser& each : link(id).crossers)
    if (is_below(level(each.link), found, link(id).capacity)) return each.crossing;
  return -1;
}

int FlowNetwork::lowest_beside(const Flow& own, int except) {
  int lowest = nowhere;
  for (const Hop& each : hops_of(own))
    if (each.link != except && level(each.link) < level(lowest)) lowest = each.link;
  return lowest;
}

void FlowNetwork::queue_now(int id) {
  room(id).queued = true;
  if (level(id) < no_limit)
    full_queue_.push(level(id), id);
  else
    not_full_queue_.push_back(id);
}

void FlowNetwork::queue_changed(const Flow& own, int except) {
  for (const Hop& each : hops_of(own)) {
    const Link& crossed = link(each.link);
    if (each.link != except &&
        (crossed.watched || level(own.bottleneck) * crossed.copies > crossed.capacity))
      queue(each.link);
  }
}

void FlowNetwork::queue_unwatched_below(int id, double found) {
  double above = no_limit;
  for (const KeyedHeap::Item& item : link(id).held.items())
    for (const Hop& each : hops_of(flow(item.id))) {
      const Link& crossed = link(each.link);
      if (crossed.watched) continue;
      const double share = crossed.capacity / crossed.copies;
      if (found > share)
        queue(each.link);
      else
        above = std::min(above, share);
    }
  link(id).unwatched_above = above;
}

// A link hears of the levels that hold back its flows elsewhere if it is full, or if one of them is
// above an equal share of it; while all are below, it cannot fill.
void FlowNetwork::watch_where_needed(int id) {
  Link& own = link(id);
  const double share = own.capacity / own.copies;
  const bool needed =
      level(id) < no_limit || own.highest_beside > (own.watched ? unwatched_share : 1) * share;
  if (needed != own.watched) watch(id, needed);
  if (needed) return;
  for (const Beside& each : own.beside) {
    double& above = link(each.bottleneck).unwatched_above;
    above = std::min(above, share);
  }
}

}  // namespace meshwright
