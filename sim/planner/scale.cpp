#include "sim/planner/scale.h"

#include "sim/planner/search_until_fits.h"

namespace meshwright::sim {

namespace {

std::vector<int> scale_counts(const ClusterRequest& request) {
  const std::vector<int> given = counts_of(request);
  if (given.size() > 1) return given;
  std::vector<int> counts;
  for (int count = 1; count < given.front(); count *= 2) counts.push_back(count);
  counts.push_back(given.front());
  return counts;
}

Job job_at(const Job& job, const std::string& machine, int count) {
  Job at = job;
  at.cluster.machines = {machine};
  at.cluster.counts = {count};
  at.autos.insert("parallelism.data");
  return at;
}

std::string reason_of(const SearchResult& result) {
  return result.rejected.empty() ? "nothing to try" : result.rejected.front().reason;
}

}  // namespace

ScaleResult scale(const Job& job, const ScaleOptions& options) {
  ScaleResult result;
  const std::vector<int> counts = scale_counts(job.cluster);
  for (const std::string& machine : machines_of(job.cluster)) {
    const std::size_t first = result.points.size();
    for (const int count : counts) {
      Job at = job_at(job, machine, count);
      if (options.weak)
        at.plan.training.global_batch = job.plan.training.global_batch * count / counts.front();
      SearchResult found = search_left_out(at, options.search).result;
      if (found.plans.empty()) {
        result.gaps.push_back({machine, count, reason_of(found)});
        continue;
      }
      RankedPlan& best = found.plans.front();
      ScalePoint point{machine,
                       count,
                       best.cluster.ranks(),
                       best.prediction.tokens_per_s,
                       1,
                       best.prediction.usd_per_million_tokens,
                       std::move(best)};
      result.points.push_back(std::move(point));
      const ScalePoint& base = result.points[first];
      ScalePoint& own = result.points.back();
      own.efficiency = own.tokens_per_s / own.gpus / (base.tokens_per_s / base.gpus);
    }
  }
  return result;
}

}  // namespace meshwright::sim
