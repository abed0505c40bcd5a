#include "sim/advise/near_batch.h"

#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "models/core/error.h"
#include "sim/planner/search_until_fits.h"

namespace meshwright::sim {

namespace {

// Returns the batch within an eighth of `batch` that has the largest common divisor with `ranks`,
// and the nearest one among several. If two are equally near, the larger one is returned. Returns 0
// if none has a larger common divisor than `batch` itself.
std::int64_t divided_better(std::int64_t batch, std::int64_t ranks) {
  const std::int64_t farthest = batch / 8;
  std::int64_t best = 0, most = std::gcd(batch, ranks), distance = 0;
  for (std::int64_t each = batch + farthest; each >= batch - farthest; --each) {
    const std::int64_t shared = std::gcd(each, ranks), away = std::abs(each - batch);
    if (shared < most || (shared == most && (best == 0 || away >= distance))) continue;
    best = each;
    most = shared;
    distance = away;
  }
  return best;
}

}  // namespace

std::optional<NearBatch> near_batch(const Job& job, const RankedPlan& best,
                                    const SearchOptions& options) {
  constexpr double worth_a_word = 0.02;
  constexpr std::int64_t largest = 1 << 20;  // divided_better() tries every batch in its range
  const std::int64_t own = job.plan.training.global_batch;
  if (own > largest || own % best.cluster.ranks() == 0) return std::nullopt;
  const std::int64_t batch = divided_better(own, best.cluster.ranks());
  if (batch == 0) return std::nullopt;
  Job other = job;
  other.plan.training.global_batch = batch;
  other.cluster.machines = {best.machine};
  other.cluster.counts = {best.count};
  other.cluster.processes_per_host = best.cluster.processes_per_host;
  other.objective.budget_usd.reset();
  other.objective.deadline_s.reset();
  other.objective.minimize = Minimize::step_time;
  SearchOptions one = options;
  one.keep_best = 1;
  one.prove_gap.reset();
  one.watch = {};
  try {
    const SearchResult found = search_left_out(other, one).result;
    if (found.plans.empty()) return std::nullopt;
    const double faster =
        found.plans.front().prediction.tokens_per_s / best.prediction.tokens_per_s - 1;
    if (faster < worth_a_word) return std::nullopt;
    return NearBatch{batch, faster};
  } catch (const InputError&) {  // such as degrees that do not divide the new batch
    return std::nullopt;
  }
}

}  // namespace meshwright::sim
