// Flows that arrive, share links max-min fairly, and leave: an event at a time.
//
// Every link has a level, the rate of those flows that it holds back: the flows that other links
// hold back to less leave the rest of its capacity to them. A flow's rate is the lowest level of
// its links. Levels that agree with each other in this way are the max-min fair shares (each flow
// has a full link on which no other is faster; Bertsekas and Gallager, Data Networks, 6.5.2). When
// a flow comes or goes, the levels of its links are found again, and those of other links only as
// far as rates change: the lowest levels settle first, since no level is below capacity / flows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/core/units.h"

namespace meshwright {

class FlowNetwork {
 public:
  struct Completion {
    SimTime time = 0;
    int flow = 0;
  };

  int add_link(double bytes_per_s);

  // A flow of `bytes` over the links of `route`, each once; no link: it ends at once. `copies` of
  // it that start and end together count as one: each has its own bytes and its own share. `now`
  // never goes back from one call to the next. Ids of flows that have left are given out again.
  int start(std::span<const int> route, double bytes, SimTime now, double copies = 1);

  // The flow that ends first, of several the one with the lowest id. It stays until removed.
  std::optional<Completion> next_completion();

  double remove(int flow, SimTime now);  // bytes that were left
  double rate(int flow);                 // bytes per second of one copy
  std::size_t flows() const { return heap_.size(); }

 private:
  struct Hop {
    int link = 0;
    int place = 0;  // in the link's list
  };
  struct Flow {
    std::vector<Hop> hops;
    double left = 0;  // bytes at `since`
    double copies = 1;
    double rate = 0;       // as the levels say
    double used_rate = 0;  // since `since`
    double since = 0, end = 0;
    int heap_place = -1;
    bool touched = false;
  };
  struct Visit {
    int flow = 0;
    int hop = 0;
  };
  struct Link {
    double capacity = 0;
    double level = 0;
    std::vector<Visit> flows;
    bool queued = false;
  };

  Flow& flow(int id) { return flows_[static_cast<std::size_t>(id)]; }
  Link& link(int id) { return links_[static_cast<std::size_t>(id)]; }
  void advance(SimTime now);
  void queue(int link);
  void touch(int flow);
  void settle();
  double level_of(const Link& link);
  double lowest_level_beside(const Flow& flow, int hop) const;
  void set_level(Link& link, double level);
  void use_rate(Flow& flow);
  bool earlier(int a, int b) const;
  void place_in_heap(int flow, std::size_t place);
  void sift(int flow);
  void erase_from_heap(int flow);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<int> free_;          // flows that have left
  std::vector<int> queue_;         // links whose level may be wrong
  std::vector<int> touched_;       // flows whose rate may have changed
  std::vector<double> elsewhere_;  // of the link that is looked at: what its flows get elsewhere
  std::vector<int> heap_;          // flows by end
  double now_ = 0;                 // picoseconds
};

}  // namespace meshwright
