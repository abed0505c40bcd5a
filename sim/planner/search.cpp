#include "sim/planner/search.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <deque>

#include "models/core/error.h"
#include "sim/planner/cluster_search.h"
#include "sim/planner/pareto.h"
#include "sim/predict/goodput.h"

namespace meshwright {

namespace {

constexpr int least_simulations_per_cluster = 12;

using Clock = std::chrono::steady_clock;

double gibibytes(double bytes) { return bytes / (1024.0 * 1024.0 * 1024.0); }

void add_misses(const ClusterSearch& search, std::optional<ClosestMiss>& closest) {
  const auto& miss = search.closest_miss();
  if (!miss) return;
  const auto excess = [](const ClosestMiss& m) {
    return m.peak_memory_bytes / m.memory_limit_bytes;
  };
  if (!closest || excess(*miss) < excess(*closest)) closest = miss;
}

// Most frequent first; the memory line says by how much the nearest one missed.
std::vector<Rejection> sorted(const Rejections& reasons, const std::optional<ClosestMiss>& miss) {
  std::vector<Rejection> list;
  for (const auto& [reason, count] : reasons) {
    list.push_back({reason, count});
    if (miss && reason == "does not fit in memory")
      list.back().reason +=
          fmt::format(" (closest: {:.1f} GiB of {:.1f} GiB)", gibibytes(miss->peak_memory_bytes),
                      gibibytes(miss->memory_limit_bytes));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Rejection& a, const Rejection& b) { return a.count > b.count; });
  return list;
}

// All plans in one order; the best `keep`, and the best of each cluster.
std::vector<RankedPlan> rank(const Job& job, const std::deque<ClusterSearch>& searches,
                             std::size_t keep) {
  struct Place {
    const RankedPlan* plan;
    Merit merit;
    bool first_of_cluster;
  };
  std::vector<Place> places;
  for (const ClusterSearch& search : searches)
    for (std::size_t i = 0; i < search.plans().size(); ++i) {
      const RankedPlan& plan = search.plans()[i];
      places.push_back({&plan,
                        merit(job.objective, search.cluster(), useful_step_time_s(plan.prediction)),
                        i == 0});
    }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.merit < b.merit; });
  std::vector<RankedPlan> plans;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (i < keep || places[i].first_of_cluster) plans.push_back(*places[i].plan);
  return plans;
}

// By how much the best of what was not simulated could be better than the best plan.
double gap(const Job& job, const std::deque<ClusterSearch>& searches, const RankedPlan& best) {
  const Merit found = merit(job.objective, best.cluster, best.prediction.step_time_s);
  double largest = 0;
  for (const ClusterSearch& search : searches)
    if (search.best_left() && found.first > 0)
      largest = std::max(largest, 1 - search.best_left()->first / found.first);
  return largest;
}

}  // namespace

SearchResult search(const Job& job, const SearchOptions& options) {
  const auto begin = Clock::now();
  const std::vector<std::string> machines = machines_of(job.cluster);
  const std::vector<int> counts = counts_of(job.cluster);
  const int clusters = static_cast<int>(machines.size() * counts.size());
  const int budget = std::max(std::min(least_simulations_per_cluster, options.simulate_at_most),
                              options.simulate_at_most / std::max(1, clusters));
  const auto keep = static_cast<std::size_t>(std::max(1, options.keep_best));
  SearchResult result;
  Rejections reasons;
  std::deque<ClusterSearch> searches;  // they do not move: their bounds refer to them
  for (const std::string& name : machines) {
    const Machine machine = options.load(name);
    for (const int count : counts) {
      const Cluster cluster = make_cluster(job.cluster, machine, count);
      if (count > 1 && cluster.network().nics == 0) {
        ++reasons["several hosts without a network: " + name];
        continue;
      }
      try {
        searches.emplace_back(job, name, cluster).run(budget, keep);
      } catch (const InputError& error) {  // of a part of the plan: it names the key alone
        const std::string text = error.what();
        throw InputError(text.starts_with("/") ? job.file + ": " + text : text);
      }
    }
  }
  for (const ClusterSearch& search : searches) {
    result.candidates_enumerated += search.enumerated();
    result.candidates_simulated += search.simulated();
    for (const auto& [reason, count] : search.rejected()) reasons[reason] += count;
    add_misses(search, result.closest_miss);
  }
  result.plans = rank(job, searches, keep);
  if (!result.plans.empty()) result.proven_gap = gap(job, searches, result.plans.front());
  mark_pareto(result.plans);
  result.rejected = sorted(reasons, result.closest_miss);
  if (result.candidates_simulated > 0) result.closest_miss.reset();  // something fits
  result.search_wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

}  // namespace meshwright
