// Searches the plans for one cluster. If there are many plans, a few of the usual kind are
// simulated first. All plans get loose bounds, and those that may be among the best get close
// bounds. Promising ones of these are built and simulated, the best estimate first, until no plan
// is left whose bound is better than the best plans found, or until the budget is spent. In that
// case the bounds of the remaining plans say how much better the best of them could be.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "sim/planner/objective.h"
#include "sim/planner/search.h"
#include "sim/planner/survey.h"
#include "sim/planner/trial.h"

namespace meshwright::sim {

// Thrown by ClusterSearch::run() and simulate_lowest() if SearchOptions::stop asked for an end.
// plans() then returns the plans found so far.
struct SearchStopped {};

class ClusterSearch {
 public:
  // `machine` is the name that the job uses for the machine.
  ClusterSearch(const Job& job, const std::string& machine, Cluster cluster,
                const SearchOptions& options);

  // Simulates at most `budget` candidates, most promising first, and prunes those that cannot be
  // among the best `keep`. Then simulates about `for_gap` of the candidates with the lowest bounds,
  // while these say that a plan may be better than the best one by more than 10 %. If none could be
  // simulated, tries a few of those that likely need least memory.
  void run(int budget, std::size_t keep, int for_gap = 0);

  // Simulates up to 16 of the candidates with the lowest bounds. Returns false if no candidate is
  // left.
  bool simulate_lowest();

  // Counts the candidates that remain as not simulated. Nothing may be simulated after this call.
  void finish();

  const std::string& machine() const { return machine_; }
  const Cluster& cluster() const { return cluster_; }
  const std::vector<RankedPlan>& plans() const { return plans_; }  // the plans found, best first
  const Rejections& rejected() const { return rejected_; }
  std::int64_t enumerated() const { return enumerated_; }
  std::int64_t simulated() const { return simulated_; }
  const std::optional<ClosestMiss>& closest_miss() const { return closest_; }
  // Returns the best merit that the lowest bound of the unsimulated plans allows, or nothing if no
  // plan is left. It includes the least time that failures cost.
  std::optional<Merit> best_left() const;

 private:
  double longest_step_s() const;  // seconds of the longest step that may still be among the best
  void simulate_usual(int budget);
  void survey_all();
  void tell() const;
  void reject(const Violation& reason, std::int64_t count, bool is_late);
  void turn_away_slow(const Entry& entry);
  void simulate_promising(int budget);
  double expected_s(const Entry& entry);
  double expected_bytes(const Entry& entry) const;
  std::tuple<bool, double, double> place(const Entry& entry, double seconds) const;
  std::size_t left_of(int budget) const;
  void narrow_gap(int more);
  void find_any_that_fits();
  template <class Place>
  std::vector<Entry> take_first(std::size_t count, const Place& place);
  double least_useful_s(double step_time_s) const;
  bool is_turned_away(const Entry& entry);
  void try_out(std::span<const Entry> entries);
  void note(const Entry& entry, Trial trial);
  bool known_not_to_fit(const Candidate& candidate);
  void note_miss(const Candidate& candidate, const Trial::Need& need);
  void measure_closest_miss();

  const Job& job_;
  std::string machine_;
  Cluster cluster_;
  Plan base_;
  JobOnCluster run_;
  TrialMaker trials_;
  double limit_ = 0;  // memory limit of a device, in bytes
  int threads_ = 1;
  SearchWatch watch_;
  std::function<bool()> stop_;
  std::size_t keep_ = 1;
  Space space_;
  Surveyor surveyor_;
  std::vector<Entry> entries_;  // plans that are neither tried nor rejected yet
  std::vector<RankedPlan> plans_;
  Rejections rejected_;
  std::vector<Candidate> evaluated_;
  // Ratios of simulated to estimated time of the simulated plans of a kind: their sum and their
  // number.
  struct Learned {
    double sum = 0;
    int count = 0;
  };
  using Kind =
      std::tuple<ScheduleKind, std::string_view, int, bool, bool, bool, ContextExchange, bool>;
  Kind kind_of(const Candidate& candidate);
  std::map<Kind, Learned> learned_;
  using MemoryKind = std::tuple<program::Recompute, Offload, int, bool, bool, bool, bool>;
  static MemoryKind memory_kind_of(const Candidate& candidate);
  std::map<MemoryKind, double>
      // The least ratio of needed to likely bytes, over the plans of a kind that were built.
      least_factors_;
  std::vector<Candidate> too_large_;  // candidates that were built and did not fit
  // The lowest bound of the step time, in seconds, of the plans that entries_ had no room for.
  double left_s_ = std::numeric_limits<double>::infinity();
  // The candidate with the lowest bound of memory above the limit, not built.
  std::optional<Candidate> nearest_;
  std::optional<ClosestMiss> closest_;
  bool bounds_pipelines_ = false;
  bool limits_decide_ = false;  // whether a deadline or a budget pruned plans
  std::int64_t enumerated_ = 0, simulated_ = 0, built_ = 0;
  double bounded_ = 0;  // share of the branches that were bounded
};

}  // namespace meshwright::sim
