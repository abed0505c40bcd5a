// The search on one cluster: bounds of all candidates, then the exact memory plan and the
// simulation of the promising ones.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/planner/bounds.h"
#include "sim/planner/objective.h"
#include "sim/planner/search.h"

namespace meshwright {

class ClusterSearch {
 public:
  // `machine` is the job's word for it.
  ClusterSearch(const Job& job, const std::string& machine, Cluster cluster);

  // Simulates at most `budget` candidates and keeps the best `keep` that fit.
  void run(int budget, std::size_t keep);

  const Cluster& cluster() const { return cluster_; }
  const std::vector<RankedPlan>& plans() const { return plans_; }  // best first
  const Rejections& rejected() const { return rejected_; }
  std::int64_t enumerated() const { return enumerated_; }
  std::int64_t simulated() const { return simulated_; }
  const std::optional<ClosestMiss>& closest_miss() const { return closest_; }

 private:
  struct Entry {
    Candidate candidate;
    double memory = 0;
    Bounds bounds;
  };
  // All but the micro-batch.
  using Family = std::tuple<int, int, int, int, Recompute, bool, int, CompilerLevel>;
  static Family family_of(const Candidate& candidate);

  void bound_all();
  void simulate_promising(int budget, std::size_t keep);
  void find_any_that_fits();
  std::optional<Prepared> build(const Plan& plan);
  void evaluate(const Entry& entry);
  bool known_not_to_fit(const Candidate& candidate) const;
  void note_miss(const Candidate& candidate, double bytes);
  void measure_closest_miss();

  const Job& job_;
  std::string machine_;
  Cluster cluster_;
  MachineFacts facts_;
  Plan base_;
  double limit_ = 0;
  std::vector<Entry> entries_;  // not rejected yet
  std::vector<RankedPlan> plans_;
  Rejections rejected_;
  std::map<Family, int> too_large_;  // smallest micro-batch that does not fit
  std::optional<Entry> nearest_;     // the miss with the lowest bound, not built
  std::optional<ClosestMiss> closest_;
  bool limits_decide_ = false;  // a deadline or a budget turned plans away, not memory alone
  std::int64_t enumerated_ = 0, simulated_ = 0, built_ = 0;
};

}  // namespace meshwright
