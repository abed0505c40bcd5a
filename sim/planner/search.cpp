#include "sim/planner/search.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <memory>

#include "models/core/error.h"
#include "sim/planner/cluster_search.h"
#include "sim/planner/pareto.h"
#include "sim/planner/rejections.h"
#include "sim/predict/goodput.h"

namespace meshwright::sim {

namespace {

using Searches = std::vector<std::unique_ptr<ClusterSearch>>;

using Clock = std::chrono::steady_clock;

// Returns a number of bytes as text, in GiB, MiB or bytes.
std::string amount(double bytes) {
  constexpr double mib = 1024.0 * 1024.0;
  if (bytes >= 1024 * mib) return fmt::format("{:.1f} GiB", bytes / (1024 * mib));
  if (bytes >= mib) return fmt::format("{:.1f} MiB", bytes / mib);
  return fmt::format("{:.0f} bytes", bytes);
}

void add_misses(const ClusterSearch& search, std::optional<ClosestMiss>& closest) {
  const auto& miss = search.closest_miss();
  if (!miss) return;
  const auto excess = [](const ClosestMiss& m) {
    return m.peak_memory_bytes / m.memory_limit_bytes;
  };
  if (!closest || excess(*miss) < excess(*closest)) closest = miss;
}

// Returns the rejections, most frequent first. The memory line says by how much the closest plan
// missed.
std::vector<Rejection> sorted(const Rejections& all, const std::optional<ClosestMiss>& miss) {
  std::map<Cause, Rejections> by_cause;
  for (const auto& [reason, count] : all) by_cause[cause_of(reason)][reason] += count;
  std::vector<Rejection> list;
  for (const auto& [cause, of_cause] : by_cause)
    for (const auto& [reason, count] : with_ranges(of_cause)) {
      list.push_back({reason, count, cause});
      if (miss && reason == reasons::no_memory.statement)
        list.back().reason +=
            fmt::format(" (closest: {} too much for {})",
                        amount(miss->peak_memory_bytes - miss->memory_limit_bytes),
                        amount(miss->memory_limit_bytes));
    }
  std::stable_sort(list.begin(), list.end(),
                   [](const Rejection& a, const Rejection& b) { return a.count > b.count; });
  return list;
}

Merit merit_of(const Job& job, const RankedPlan& plan) {
  return JobOnCluster(job, plan.plan.training, plan.cluster)
      .merit(useful_step_time_s(plan.prediction));
}

// Returns the merit of the best plan of a cluster, or nothing if there is none.
std::optional<Merit> best_of(const Job& job, const ClusterSearch& search) {
  if (search.plans().empty()) return std::nullopt;
  return merit_of(job, search.plans().front());
}

// Runs the search of one cluster. Returns whether it was stopped.
bool run_stops(ClusterSearch& search, int budget, std::size_t keep, int for_gap) {
  try {
    search.run(budget, keep, for_gap);
    return false;
  } catch (const SearchStopped&) {
    return true;
  }
}

// Simulates the candidate with the lowest bound. Returns false if there is none, or if the search
// was stopped meanwhile.
bool simulates_lowest(ClusterSearch& search) {
  try {
    return search.simulate_lowest();
  } catch (const SearchStopped&) {
    return false;
  }
}

// Searches clusters again with the full budget, each as it would be searched alone, if the plans
// that the first look left out may include a better one than the best of all. The most promising
// clusters come first. Returns whether it was stopped. A stopped search replaces no earlier one.
bool search_again(const Job& job, Searches& searches, std::size_t keep,
                  const SearchOptions& options) {
  std::vector<std::unique_ptr<ClusterSearch>*> order;
  std::optional<Merit> best;
  const auto note = [&](const ClusterSearch& search) {
    const std::optional<Merit> own = best_of(job, search);
    if (own && (!best || *own < *best)) best = own;
  };
  for (auto& search : searches) {
    note(*search);
    if (search->best_left()) order.push_back(&search);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return *(*a)->best_left() < *(*b)->best_left();
  });
  for (auto* search : order) {
    if (best && *best <= *(*search)->best_left()) continue;
    auto again =
        std::make_unique<ClusterSearch>(job, (*search)->machine(), (*search)->cluster(), options);
    if (run_stops(*again, options.simulate_at_most, keep, options.simulate_for_gap)) return true;
    note(*again);
    const std::optional<Merit> first = best_of(job, **search), second = best_of(job, *again);
    if (!first || (second && *second <= *first)) *search = std::move(again);
  }
  return false;
}

// Returns the plans of all clusters in one order: the best `keep`, and the best of each cluster.
std::vector<RankedPlan> rank(const Job& job, const Searches& searches, std::size_t keep) {
  struct Place {
    const RankedPlan* plan;
    Merit merit;
    bool first_of_cluster;
  };
  std::vector<Place> places;
  for (const auto& search : searches)
    for (std::size_t i = 0; i < search->plans().size(); ++i) {
      const RankedPlan& plan = search->plans()[i];
      places.push_back({&plan, merit_of(job, plan), i == 0});
    }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.merit < b.merit; });
  std::vector<RankedPlan> plans;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (i < keep || places[i].first_of_cluster) plans.push_back(*places[i].plan);
  return plans;
}

// Returns the share by which the best plan that was not simulated could be better than `best`, by
// its bound.
double gap(const Job& job, const Searches& searches, const RankedPlan& best) {
  const Merit found = merit_of(job, best);
  double largest = 0;
  for (const auto& search : searches)
    if (search->best_left() && found.first > 0)
      largest = std::max(largest, 1 - search->best_left()->first / found.first);
  return largest;
}

// Simulates the plans with the lowest bounds until none that is left could be better than the best
// one by more than the asked gap. Returns how many more candidates were simulated.
std::int64_t prove(const Job& job, const SearchOptions& options, const Searches& searches,
                   std::int64_t simulated_before) {
  std::int64_t simulated = 0;
  for (;;) {
    ClusterSearch* lowest = nullptr;
    const RankedPlan* best = nullptr;
    for (const auto& search : searches) {
      if (search->best_left() && (!lowest || *search->best_left() < *lowest->best_left()))
        lowest = search.get();
      if (search->plans().empty()) continue;
      const RankedPlan& own = search->plans().front();
      if (!best || merit_of(job, own) < merit_of(job, *best)) best = &own;
    }
    if (!lowest || !best) return simulated;
    const SearchProgress progress{simulated_before + simulated, gap(job, searches, *best)};
    if (progress.gap <= *options.prove_gap) return simulated;
    if (options.go_on && !options.go_on(progress)) return simulated;
    const std::int64_t before = lowest->simulated();
    const bool goes_on = simulates_lowest(*lowest);
    simulated += lowest->simulated() - before;
    if (!goes_on) return simulated;
  }
}

}  // namespace

SearchResult search(const Job& job, const SearchOptions& asked) {
  const auto begin = Clock::now();
  SearchOptions options = asked;
  if (!options.profiles) options.profiles = std::make_shared<SharedProfiles>();
  const std::vector<std::string> machines = machines_of(job.cluster);
  const std::vector<int> counts = counts_of(job.cluster);
  const bool is_one = machines.size() * counts.size() == 1;
  const int budget = options.simulate_at_most;
  const int first_budget = is_one ? budget : std::min(options.simulate_first, budget);
  const auto keep = static_cast<std::size_t>(std::max(1, options.keep_best));
  SearchResult result;
  Rejections rejected;
  Searches searches;
  for (const std::string& name : machines) {
    const Machine machine = options.load(name);
    for (const int count : counts) {
      if (result.stopped || (options.stop && options.stop())) {
        result.stopped = true;
        continue;
      }
      const Cluster cluster = make_cluster(job.cluster, machine, count);
      if (count > 1 && cluster.network().nics == 0) {
        ++rejected[{.statement = "several hosts without a network: " + name}];
        continue;
      }
      try {
        searches.push_back(std::make_unique<ClusterSearch>(job, name, cluster, options));
        result.stopped =
            run_stops(*searches.back(), first_budget, keep, is_one ? options.simulate_for_gap : 0);
      } catch (const InputError& error) {
        throw_in_file(job.file, error);
      }
    }
  }
  if (first_budget < budget && !result.stopped)
    result.stopped = search_again(job, searches, keep, options);
  // If the second search of a cluster replaced the first, only the plans of the second count,
  // because it simulated or rejected those of the first again.
  for (const auto& search : searches) result.candidates_simulated += search->simulated();
  if (options.prove_gap && !result.stopped)
    result.candidates_simulated += prove(job, options, searches, result.candidates_simulated);
  const std::vector<RankedPlan> plans = rank(job, searches, keep);
  if (!plans.empty()) result.proven_gap = gap(job, searches, plans.front());
  for (const auto& search : searches) search->finish();
  for (const auto& search : searches) {
    result.candidates_enumerated += search->enumerated();
    for (const auto& [reason, count] : search->rejected()) rejected[reason] += count;
    add_misses(*search, result.closest_miss);
  }
  result.plans = plans;
  mark_pareto(result.plans);
  result.rejected = sorted(rejected, result.closest_miss);
  // Some plan fits, so nothing missed.
  if (result.candidates_simulated > 0) result.closest_miss.reset();
  result.search_wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

}  // namespace meshwright::sim
