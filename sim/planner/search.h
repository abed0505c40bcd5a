// Searches for the best plan of a job. Every legal plan on every cluster that the job allows is
// bounded, and the promising ones are built and simulated. The others are counted by the reason for
// which they are not among the plans found. The first plan is the best of the space, up to
// `proven_gap`. The same job gives the same result, and a job that allows more clusters never gets
// a worse one, unless the search is stopped.
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

class SharedProfiles;  // defined in sim/planner/profile.h

struct RankedPlan {
  Plan plan;  // resolved, with the stages as partitioned
  std::string machine;
  int count = 1;
  Cluster cluster;
  Prediction prediction;
  bool pareto = false;  // no other plan beats it in time and cost (mark_pareto)
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
  // It is 0 if the first plan is the best. It follows from the bounds of the plans that were not
  // simulated.
  double proven_gap = 0;
  std::vector<Rejection> rejected;
  std::optional<ClosestMiss> closest_miss;
  // Whether SearchOptions::stop ended the search. Then there may be better plans, and `proven_gap`
  // means nothing.
  bool stopped = false;
};

struct SearchProgress {
  std::int64_t simulated = 0;
  double gap = 0;  // the gap that is proven so far
};

// The progress of the search on one of the job's clusters.
struct ClusterProgress {
  std::string machine;
  int count = 1;
  std::int64_t enumerated = 0, simulated = 0;
  double bounded = 0;  // share of the branches of the space whose plans have bounds
  std::optional<double> best_step_time_s;  // step time of the best plan so far
};
using SearchWatch = std::function<void(const ClusterProgress&)>;

struct SearchOptions {
  // Number of plans to return for all clusters together. The best plan of each cluster is returned
  // in any case.
  int keep_best = 10;
  // Number of plans to simulate on a cluster. If there are several clusters, this many are only
  // simulated on those that may have the best plan after the first look.
  int simulate_at_most = 36;
  // Number of plans with the lowest bounds that are simulated in addition on each cluster, while
  // the gap is above 10 %.
  int simulate_for_gap = 32;
  // Number of plans to simulate at a first look at each of several clusters. It does not depend on
  // how many clusters there are, so that the result for many clusters is never worse than that for
  // some of them.
  int simulate_first = 12;
  // Share of the memory of a GPU (or of what a framework gets of it) that plans leave free.
  double memory_margin = 0;
  // If set, the search goes on to simulate the plans with the lowest bounds until the proven gap is
  // at most this share.
  std::optional<double> prove_gap = std::nullopt;
  // Called before each round of simulations for `prove_gap`. The search stops if it returns false.
  std::function<bool(const SearchProgress&)> go_on = {};
  // Called often by any thread. Once it returns true, the search ends with what it has found.
  std::function<bool()> stop = {};
  // Called often while clusters are searched, by any of the threads, but by one at a time.
  SearchWatch watch = {};
  // Number of threads that bound and simulate. 0 means as many as this process may use. Any number
  // finds the same plans.
  int threads = 0;
  MachineLoader load = load_known_machine;
  // Measurements that several searches of one question share, for the same machines. If it is null,
  // the search makes its own.
  std::shared_ptr<SharedProfiles> profiles = nullptr;
};

SearchResult search(const Job& job, const SearchOptions& options = {});

}  // namespace meshwright::sim
