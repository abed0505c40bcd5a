// Flows that arrive, share links max-min fairly, and leave: an event at a time.
//
// Every full link has a level, the rate of those flows that it holds back; the flows that other
// links hold back to less leave the rest of its capacity to them. A flow's rate is the lowest level
// of its links: that link is its bottleneck. Levels that agree with each other in this way are the
// max-min fair shares (Bertsekas and Gallager, Data Networks, 6.5.2).
//
// All flows of one bottleneck have one rate. So a link counts what each of them has carried since
// it is there and keeps them by the count at which they end; a new level is no work for each flow.
// Of its other flows a link knows only how many each other bottleneck holds back. When a flow comes
// or goes, the levels of its links are found again, and those of other links only as far as rates
// change; flows are touched where their bottleneck becomes another.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/core/units.h"
#include "sim/network/keyed_heap.h"
#include "sim/network/level_queue.h"

namespace meshwright {

class FlowNetwork {
 public:
  struct Completion {
    SimTime time = 0;
    int flow = 0;
  };

  FlowNetwork();
  int add_link(double bytes_per_s);

  // A flow of `bytes` over the links of `route`, each once; no link: it ends at once. `copies` of
  // it that start and end together count as one: each has its own bytes and its own share. `now`
  // never goes back from one call to the next. Ids of flows that have left are given out again.
  int start(std::span<const int> route, double bytes, SimTime now, double copies = 1);

  // The flow that ends first, of several the one with the lowest id. It stays until removed.
  std::optional<Completion> next_completion();

  double remove(int flow, SimTime now);  // bytes that were left
  double rate(int flow);                 // bytes per second of one copy
  std::size_t flows() const { return flows_.size() - free_.size(); }

 private:
  static constexpr double no_limit = std::numeric_limits<double>::infinity();
  static constexpr int nowhere = 0;  // stands for the bottleneck of flows that have none

  struct Flow {
    int first_hop = 0, hops = 0;
    int bottleneck = nowhere;
    double copies = 1;
  };
  struct Hop {
    int link = 0, flow = 0;
    int crossing = -1;  // none at the bottleneck
    int previous = -1, next = -1;
  };
  // The flows of one link that another holds back.
  struct Crossing {
    int link = 0, bottleneck = 0;
    int first_hop = -1;
    int place = 0;           // in the link's list
    int crosser_place = -1;  // in the bottleneck's list, if the link is watched
  };
  struct Room {
    double left = 0;  // if the link is not full: what its flows leave, or less; none if it is full
    bool queued = false;
  };
  struct Beside {
    double copies = 0;
    int bottleneck = 0, crossing = 0;
  };
  struct Crosser {
    double copies = 0;
    int link = 0, crossing = 0;
  };
  struct Link {
    double capacity = 0;
    double copies = 0, held_copies = 0;  // of all flows on it; of those that it holds back
    double carried = 0;                  // by each flow that it holds back, until `since`
    double since = 0;                    // picoseconds
    double highest_beside = 0;           // level that holds back flows elsewhere
    double unwatched_above = no_limit;   // up to this level flows from here fill no unwatched link
    bool watched = false, is_end_old = false;
    KeyedHeap held;                 // by what is carried when they end
    std::vector<Beside> beside;     // held back by others
    std::vector<Crosser> crossers;  // watched links that flows held back here cross
  };

  Flow& flow(int id) { return flows_[static_cast<std::size_t>(id)]; }
  Hop& hop(int id) { return hops_[static_cast<std::size_t>(id)]; }
  Link& link(int id) { return links_[static_cast<std::size_t>(id)]; }
  Crossing& crossing(int id) { return crossings_[static_cast<std::size_t>(id)]; }
  Room& room(int link) { return rooms_[static_cast<std::size_t>(link)]; }
  double& level(int link) { return levels_[static_cast<std::size_t>(link)]; }
  std::span<Hop> hops_of(const Flow& flow) {
    return {hops_.data() + flow.first_hop, static_cast<std::size_t>(flow.hops)};
  }

  // flow_network.cpp
  void advance(SimTime now);
  void settle();
  void reserve_hops(Flow& flow, std::size_t hops);
  void move(int flow, int to);
  void hold(int flow, int link, double bytes);
  double let_go(int flow);  // bytes left
  void count_until_now(int link);
  void find_end(int link);

  // flow_levels.cpp
  void settle_levels();
  void settle_level(int link);
  double level_of(int link);
  void set_level(int link, double level);
  int lower_crosser(int link, double level);
  int lowest_beside(const Flow& flow, int link);
  void queue(int id) {
    if (!room(id).queued) queue_now(id);
  }
  void queue_now(int id);
  void queue_changed(const Flow& flow, int except);
  void queue_unwatched_below(int link, double level);
  void watch_where_needed(int link);

  // flow_crossings.cpp
  void attach(int hop, int bottleneck);
  void detach(int hop);
  void watch(int link, bool is_watched);
  void add_crossing(int link, int bottleneck);
  void remove_crossing(int crossing);
  void add_crosser(const Beside& beside);
  void remove_crosser(int crossing);

  std::vector<Link> links_;     // `nowhere`, then those of add_link
  std::vector<double> levels_;  // of each link; no_limit: not full
  std::vector<Room> rooms_;     // of each link
  std::vector<Flow> flows_;
  std::vector<int> free_;  // flows that have left
  std::vector<Hop> hops_;
  std::vector<std::vector<int>> free_hops_;  // by number of hops: the first ones
  std::vector<Crossing> crossings_;
  std::vector<int> free_crossings_;
  LevelQueue full_queue_;            // links whose level may be wrong
  std::vector<int> not_full_queue_;  // those without a level
  std::vector<int> to_queue_;        // scratch
  std::vector<int> old_ends_;        // links whose first end may be another
  KeyedHeap ends_;                   // links by the end of their first flow
  std::vector<int> place_in_link_, place_in_ends_;
  double now_ = 0;  // picoseconds
};

}  // namespace meshwright
