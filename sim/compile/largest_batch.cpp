#include "sim/compile/largest_batch.h"

#include <algorithm>

#include "models/core/error.h"
#include "sim/predict/predict.h"

namespace meshwright {

namespace {

struct Need {
  bool fits = false;
  std::int64_t peak_bytes = 0;
};

Need need_of(const Model& model, const Plan& plan, int micro_batch, const Cluster& cluster) {
  const Prepared prepared = prepare(model, with_micro_batch(plan, micro_batch), cluster);
  Need need;
  for (const StageMemory& stage : stage_memory(prepared.stages, cluster))
    need.peak_bytes = std::max(need.peak_bytes, stage.peak_bytes);
  const std::int64_t on_host = host_memory_bytes(prepared.stages, prepared.plan, cluster);
  need.fits = static_cast<double>(need.peak_bytes) <= cluster.device().memory_bytes &&
              static_cast<double>(on_host) <= cluster.machine.host.memory_bytes;
  return need;
}

// Micro-batches must be multiples of the smallest legal one: the ranks of a tensor group share its
// sequences or its rows.
int granule(const Model& model, const Plan& plan) {
  for (int size = 1; size < plan.parallelism.tensor; ++size) try {
      verify(with_micro_batch(plan, size), model.sizes());
      return size;
    } catch (const InputError&) {
    }
  return plan.parallelism.tensor;
}

constexpr int most_granules = 1 << 20;

}  // namespace

Plan with_micro_batch(Plan plan, int micro_batch) {
  const std::int64_t micro_batches = plan.micro_batches();
  plan.training.micro_batch = micro_batch;
  plan.training.global_batch = plan.parallelism.data * micro_batches * micro_batch;
  return plan;
}

// Memory grows nearly in a straight line with the micro-batch, so the line through the two ends of
// what is still open hits the answer after a few plans.
LargestBatch largest_micro_batch(const Model& model, const Plan& plan, const Cluster& cluster) {
  const int step = granule(model, plan);
  const auto limit = static_cast<std::int64_t>(cluster.device().memory_bytes);
  const auto need = [&](int granules) { return need_of(model, plan, granules * step, cluster); };
  int low = 1, high = 2;
  Need at_low = need(low), at_high;
  if (!at_low.fits) return {};
  while ((at_high = need(high)).fits) {
    if (high >= most_granules) return {high * step, at_high.peak_bytes};
    const std::int64_t each =
        std::max<std::int64_t>(1, (at_high.peak_bytes - at_low.peak_bytes) / (high - low));
    const std::int64_t guess = high + (limit - at_high.peak_bytes) / each + 1;
    low = high, at_low = at_high;
    high = static_cast<int>(std::clamp<std::int64_t>(guess, high + 1, most_granules));
  }
  for (bool halve = false; high - low > 1; halve = !halve) {
    const std::int64_t rise = at_high.peak_bytes - at_low.peak_bytes;
    std::int64_t middle = low + (high - low) / 2;
    if (!halve && rise > 0) middle = low + (limit - at_low.peak_bytes) * (high - low) / rise;
    const int next = static_cast<int>(std::clamp<std::int64_t>(middle, low + 1, high - 1));
    const Need at_next = need(next);
    (at_next.fits ? low : high) = next;
    (at_next.fits ? at_low : at_high) = at_next;
  }
  return {low * step, at_low.peak_bytes};
}

}  // namespace meshwright
