// Finds the plans of a space that bounds do not prune. Every plan is bounded loosely, branch by
// branch (sweep.h), and those that may still be among the best are bounded closely. Several threads
// take the branches. The result does not depend on how many threads there are.
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

namespace meshwright::sim {

struct Entry {
  Candidate candidate;
  MemoryBounds memory;
  Bounds bounds;
  // Index of its branch in the space, and its number within the branch.
  std::pair<std::size_t, std::size_t> place;
};

struct SurveyLimits {
  double memory_bytes = 0;
  double step_time_s = 0;
  // At least `step_time_s`. A plan with a longer step misses the deadline or the budget of the
  // objective.
  double deadline_s = 0;
  // Seconds of the best known plan. Plans that may be faster are bounded task by task
  // (pipeline_bound.h). If it is 0, no plan is bounded so.
  double best_step_time_s = 0;
};

struct Surveyed {
  std::vector<Entry> entries;  // the plans that are left, in the order of the space
  std::array<std::int64_t, loss_count> lost{};  // numbers of plans that the loose bounds prune
  // Numbers of plans that the close bounds prune.
  std::int64_t too_late = 0, too_slow = 0, too_large = 0;
  // The plan with the lowest bound of memory among those that do not fit.
  struct Nearest {
    double bytes = std::numeric_limits<double>::infinity();
    std::pair<std::size_t, std::size_t> place;
    Candidate candidate;
  };
  Nearest nearest;
  // Plans that were dropped from the entries because there were too many: their number, and the
  // lowest bound of their step time in seconds.
  std::int64_t left = 0;
  double left_s = std::numeric_limits<double>::infinity();

  void add(Surveyed other);
  void leave_slowest(std::size_t most);
};

class Surveyor {
 public:
  // `model`, `base` and `cluster` must outlive the surveyor. `profiles` are those of the three, or
  // null.
  Surveyor(const Model& model, const Plan& base, const Cluster& cluster,
           std::shared_ptr<ModelProfiles> profiles, int threads);

  // Returns plans of the usual kind that likely fit in memory, those with the lowest loose bounds
  // of the time first. usual_part() in survey.cpp defines this kind. `told` is called often, by any
  // thread, but by one at a time. If it throws, the survey ends with its exception.
  std::vector<Entry> usual(const Space& space, const SurveyLimits& limits,
                           const std::function<void()>& told = {});
  // Returns the bounds of all plans that are not in `done`. `told` gets the number of branches that
  // are finished, in one call at a time. If it throws, the survey ends with its exception.
  Surveyed all(const Space& space, const SurveyLimits& limits, std::span<const Candidate> done,
               const std::function<void(std::size_t branches)>& told = {});

  BoundMaker& bounds() { return makers_.front(); }

 private:
  std::vector<BoundMaker> makers_;  // one bound maker for each thread
};

}  // namespace meshwright::sim
