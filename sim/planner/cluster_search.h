// The search on one cluster. A few plans of the usual kind are simulated first; what the loose
// bounds leave of the whole space is bounded closely; and of that the promising plans are built and
// simulated, the best estimate first, until nothing is left whose bound is better than the best
// plans found, or the budget is spent: then the bounds of what is left say how much better the best
// of them could be.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "models/compile/compile.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/bounds.h"
#include "sim/planner/objective.h"
#include "sim/planner/search.h"
#include "sim/planner/sweep.h"

namespace meshwright {

class ClusterSearch {
 public:
  // `machine` is the job's word for it.
  ClusterSearch(const Job& job, const std::string& machine, Cluster cluster,
                double memory_margin = 0);

  // Simulates at most `budget` candidates and keeps the best `keep` that fit.
  void run(int budget, std::size_t keep);

  // Simulates the candidate with the lowest bound; false: there is none.
  bool simulate_lowest();

  // Counts what was not simulated; nothing is simulated after it.
  void finish();

  const std::string& machine() const { return machine_; }
  const Cluster& cluster() const { return cluster_; }
  const std::vector<RankedPlan>& plans() const { return plans_; }  // best first
  const Rejections& rejected() const { return rejected_; }
  std::int64_t enumerated() const { return enumerated_; }
  std::int64_t simulated() const { return simulated_; }
  const std::optional<ClosestMiss>& closest_miss() const { return closest_; }
  // No plan that was not simulated is better than this; nothing: there is none.
  std::optional<Merit> best_left() const;

 private:
  struct Entry {
    Candidate candidate;
    MemoryBounds memory;
    Bounds bounds;
  };
  double longest_step_s() const;  // that may still be among the best
  void simulate_usual(int budget);
  void sweep_all();
  void bound_closely(const std::vector<Swept::Survivor>& survivors, const Limits& limits);
  void turn_away_slow(const Entry& entry);
  void leave_slowest();
  void sort_entries();
  void simulate_promising(int budget);
  double expected_s(const Entry& entry) const;
  void find_any_that_fits();
  void leave(const Entry& entry);
  bool is_turned_away(const Entry& entry);
  struct Built {
    Compiled compiled;
    std::optional<FrameworkUse> framework;
  };
  std::optional<Built> build(const Plan& plan);
  void evaluate(const Entry& entry);
  bool known_not_to_fit(const Candidate& candidate);
  struct Need {
    double bytes = 0, limit_bytes = 0;
    bool fits = false;
  };
  Need need_of(const Built& built) const;
  void note_miss(const Candidate& candidate, const Need& need);
  void measure_closest_miss();

  const Job& job_;
  std::string machine_;
  Cluster cluster_;
  MachineFacts facts_;
  Plan base_;
  double usable_ = 1;  // share of the memory
  double limit_ = 0;
  std::size_t keep_ = 1;
  Space space_;
  BoundMaker bounds_;
  std::vector<Entry> entries_;  // not rejected yet
  std::vector<RankedPlan> plans_;
  Rejections rejected_;
  std::vector<Candidate> evaluated_;
  // How much longer plans of a kind took than estimated: the mean ratio of those simulated.
  struct Learned {
    double sum = 0;
    int count = 0;
  };
  using Kind = std::tuple<ScheduleKind, std::string_view, int, bool, bool, bool>;
  Kind kind_of(const Candidate& candidate) const;
  std::map<Kind, Learned> learned_;
  std::vector<Candidate> too_large_;  // built, and did not fit
  std::optional<Merit> best_left_;    // beside entries_
  std::optional<Entry> nearest_;      // the miss with the lowest bound, not built
  std::optional<ClosestMiss> closest_;
  bool bounds_pipelines_ = false;
  bool limits_decide_ = false;  // a deadline or a budget turned plans away, not memory alone
  std::int64_t enumerated_ = 0, simulated_ = 0, built_ = 0;
};

}  // namespace meshwright
