#include "sim/compile/largest_batch.h"

#include <algorithm>

#include "models/core/error.h"
#include "sim/cost/target.h"
#include "sim/predict/predict.h"

namespace meshwright {

namespace {

constexpr int most = 1 << 20;

MemoryFit fit_of(const Model& model, const Plan& plan, int micro_batch, const Cluster& cluster) {
  const std::vector<Program> stages =
      compile(model, with_micro_batch(plan, micro_batch), target_of(cluster, plan.training)).stages;
  MemoryFit fit;
  for (const StageMemory& stage : stage_memory(stages, cluster))
    fit.bytes = std::max(fit.bytes, stage.peak_bytes);
  const std::int64_t on_host = host_memory_bytes(stages, cluster);
  fit.fits = static_cast<double>(fit.bytes) <= cluster.device().memory_bytes &&
             static_cast<double>(on_host) <= cluster.machine.host.memory_bytes;
  return fit;
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

}  // namespace

Plan with_micro_batch(Plan plan, int micro_batch) {
  const std::int64_t micro_batches = plan.micro_batches();
  plan.training.micro_batch = micro_batch;
  plan.training.global_batch = plan.parallelism.data * micro_batches * micro_batch;
  return plan;
}

// The line through the two ends of what is still open hits the answer after a few tries.
LargestBatch largest_that_fits(std::int64_t limit, const std::function<MemoryFit(int)>& fit) {
  int low = 1, high = 2;
  MemoryFit at_low = fit(low), at_high;
  if (!at_low.fits) return {};
  while ((at_high = fit(high)).fits) {
    if (high >= most) return {high, at_high.bytes};
    const std::int64_t each =
        std::max<std::int64_t>(1, (at_high.bytes - at_low.bytes) / (high - low));
    const std::int64_t guess = high + (limit - at_high.bytes) / each + 1;
    low = high, at_low = at_high;
    high = static_cast<int>(std::clamp<std::int64_t>(guess, high + 1, most));
  }
  for (bool halve = false; high - low > 1; halve = !halve) {
    const std::int64_t rise = at_high.bytes - at_low.bytes;
    std::int64_t middle = low + (high - low) / 2;
    if (!halve && rise > 0) middle = low + (limit - at_low.bytes) * (high - low) / rise;
    const int next = static_cast<int>(std::clamp<std::int64_t>(middle, low + 1, high - 1));
    const MemoryFit at_next = fit(next);
    (at_next.fits ? low : high) = next;
    (at_next.fits ? at_low : at_high) = at_next;
  }
  return {low, at_low.bytes};
}

LargestBatch largest_micro_batch(const Model& model, const Plan& plan, const Cluster& cluster) {
  const int step = granule(model, plan);
  LargestBatch largest =
      largest_that_fits(static_cast<std::int64_t>(cluster.device().memory_bytes),
                        [&](int count) { return fit_of(model, plan, count * step, cluster); });
  largest.micro_batch *= step;
  return largest;
}

}  // namespace meshwright
