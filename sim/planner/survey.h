// What bounds leave of a space. Every plan is bounded loosely, branch by branch (sweep.h), and what
// may still be among the best closely. Several threads take the branches; what they find does not
// depend on how many there are.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/planner/bounds.h"
#include "sim/planner/sweep.h"

namespace meshwright {

struct Entry {
  Candidate candidate;
  MemoryBounds memory;
  Bounds bounds;
  std::pair<std::size_t, std::size_t> place;  // in the space: the branch, and in it
};

struct SurveyLimits {
  double memory_bytes = 0;
  double step_time_s = 0;
  double deadline_s = 0;  // at least `step_time_s`: what is slower misses the objective's limits
  // Of the best plan that is known; what may be better is bounded task by task. 0: nothing is.
  double best_step_time_s = 0;
};

struct Surveyed {
  std::vector<Entry> entries;                              // in the order of the space
  std::array<std::int64_t, loss_count> lost{};             // turned away by the loose bounds
  std::int64_t too_late = 0, too_slow = 0, too_large = 0;  // by the close ones
  // Of what does not fit, that which needs least by its bound.
  struct Nearest {
    double bytes = std::numeric_limits<double>::infinity();
    std::pair<std::size_t, std::size_t> place;
    Candidate candidate;
  };
  Nearest nearest;
  // Not among the entries, which are too many: how many, and their least bound.
  std::int64_t left = 0;
  double left_s = std::numeric_limits<double>::infinity();

  void add(Surveyed other);
  void leave_slowest(std::size_t most);
};

class Surveyor {
 public:
  // What it is given must stay.
  Surveyor(const Model& model, const Plan& base, const Cluster& cluster, int threads);

  // Of plans as one usually makes them those that likely fit, the fastest by their loose bounds.
  std::vector<Entry> usual(const Space& space, const SurveyLimits& limits);
  // Of all plans but those that are `done`. `told` of how many branches are, one call at a time.
  Surveyed all(const Space& space, const SurveyLimits& limits, std::span<const Candidate> done,
               const std::function<void(std::size_t branches)>& told = {});

  BoundMaker& bounds() { return makers_.front(); }

 private:
  std::vector<BoundMaker> makers_;  // one for each thread
};

}  // namespace meshwright
