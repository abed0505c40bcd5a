// Searches for the best plan of a job. Every legal plan on every cluster that the job allows is
// bounded, and the promising ones are built and simulated. For the others the reason is counted.
// The best plan is the best of the space, up to `proven_gap`. The same job gives the same result,
// and a job that allows more clusters never gets a worse one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "sim/planner/rejections.h"
#include "sim/planner/space.h"
#include "sim/predict/predict.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

class SharedProfiles;  // profile.h

struct RankedPlan {
  Plan plan;  // resolved, with the stages as partitioned
  std::string machine;
  int count = 1;
  Cluster cluster;
  Prediction prediction;
  bool pareto = false;  // no other plan is both faster and cheaper
};

struct Rejection {
  std::string reason;
  std::int64_t count = 0;
  Cause cause = Cause::rule;
};

// The candidate that came nearest to fitting in memory, if none fits.
struct ClosestMiss {
  Plan plan;
  std::string machine;
  int count = 1;
  double peak_memory_bytes = 0, memory_limit_bytes = 0;
};

struct SearchResult {
  double search_wall_s = 0;
  std::int64_t candidates_enumerated = 0, candidates_simulated = 0;
  // The plans, best first. Among equally good ones, the order of the machines and then of the
  // counts in the job decides.
  std::vector<RankedPlan> plans;
  // No plan of the space is better than the first one by more than this share of what is minimized.
  // It is 0 if the first plan is the best. The bounds of the plans that were not simulated prove
  // it.
  double proven_gap = 0;
  std::vector<Rejection> rejected;
  std::optional<ClosestMiss> closest_miss;
  // SearchOptions::stop ended the search: there may be better plans, and `proven_gap` says nothing.
  bool stopped = false;
};

struct SearchProgress {
  std::int64_t simulated = 0;
  double gap = 0;  // proven so far
};

// The progress of the search on one of the job's clusters.
struct ClusterProgress {
  std::string machine;
  int count = 1;
  std::int64_t enumerated = 0, simulated = 0;
  double bounded = 0;                      // share of its branches whose plans have bounds
  std::optional<double> best_step_time_s;  // of its best plan so far
};
using SearchWatch = std::function<void(const ClusterProgress&)>;

struct SearchOptions {
  int keep_best = 10;         // over all clusters, and in any case the best of each cluster
  int simulate_at_most = 36;  // on a cluster; of several, on those that may have the best plan
  // Number of plans with the lowest bounds that are simulated in addition, while the gap is above
  // 10 %.
  int simulate_for_gap = 32;
  // Plans to simulate at a first look at each of several clusters. The number does not depend on
  // how many there are, so that what is found among many is never worse than what is found among
  // some.
  int simulate_first = 12;
  // Share of the memory of a GPU (or of what a framework gets of it) that plans leave free.
  double memory_margin = 0;
  // If set, the search goes on to simulate the plans with the lowest bounds until the proven gap is
  // at most this share.
  std::optional<double> prove_gap = std::nullopt;
  // Called before each round of simulations for `prove_gap`. The search stops if it returns false.
  std::function<bool(const SearchProgress&)> go_on = {};
  // Called often by any thread. The search ends with what it has found once it returns true.
  std::function<bool()> stop = {};
  // Called often while clusters are searched, by any of the threads, but by one at a time.
  SearchWatch watch = {};
  int threads = 0;  // that bound and simulate; 0: as many as this process may use. Any number finds
                    // the same plans.
  MachineLoader load = load_known_machine;
  // Measurements that several searches of one question share, for the same machines. A search that
  // gets none makes its own.
  std::shared_ptr<SharedProfiles> profiles = nullptr;
};

SearchResult search(const Job& job, const SearchOptions& options = {});

}  // namespace meshwright::sim
