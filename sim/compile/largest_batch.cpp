#include "sim/compile/largest_batch.h"

#include <algorithm>

#include "sim/predict/predict.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

namespace {

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

// Returns the smallest legal micro-batch up to the tensor degree, or the tensor degree if none
// below it is legal. The search tries multiples of it, because the ranks of a tensor group share
// its sequences or its tokens.
int batch_granule(const Model& model, const Plan& plan) {
  for (int size = 1; size < plan.parallelism.tensor; ++size)
    if (!broken_rule(with_micro_batch(plan, size), model.sizes())) return size;
  return plan.parallelism.tensor;
}

}  // namespace

Plan with_micro_batch(Plan plan, int micro_batch) {
  const std::int64_t micro_batches = plan.micro_batches();
  plan.training.micro_batch = micro_batch;
  plan.training.global_batch = plan.parallelism.data * micro_batches * micro_batch;
  return plan;
}

LargestBatch largest_micro_batch(const Model& model, const Plan& given, const Cluster& cluster) {
  const Plan plan = taking_least_memory(given);
  const int step = batch_granule(model, plan);
  LargestBatch largest =
      largest_that_fits(static_cast<std::int64_t>(cluster.device().memory_bytes),
                        [&](int count) { return fit_of(model, plan, count * step, cluster); });
  largest.micro_batch *= step;
  return largest;
}

}  // namespace meshwright::sim
