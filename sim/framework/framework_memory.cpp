#include "sim/framework/framework_memory.h"

#include "models/core/error.h"

namespace meshwright::sim {

FrameworkTraits framework_traits(MemoryOf whose, bool several_ranks) {
  if (whose == MemoryOf::xla) return {.execution = Execution::compiled};
  // Only PyTorch has gradient buckets, and only if there are several ranks. torch_xla reduces
  // gradients in place, when no activations are left.
  return {.gradient_buckets = several_ranks};
}

double framework_limit_bytes(const Machine& machine, MemoryOf whose, bool several_ranks) {
  if (!machine.framework)
    throw InputError(broken("/training/memory_of",
                            "the profile of {} does not say what a framework finds of its memory; "
                            "use 'engine'",
                            machine.name));
  const FrameworkMemory& framework = *machine.framework;
  const LibraryOverheads& overheads = machine.overheads;
  const double usable = framework.capacity_bytes - framework.context_bytes -
                        overheads.workspace_bytes -
                        (several_ranks ? overheads.communicator_bytes : 0);
  return whose == MemoryOf::xla ? usable * (1 - framework.allocator_loss) : usable;
}

MemoryFit fit_of_framework(const Graph& forward, const FrameworkTraits& framework,
                           double limit_bytes) {
  const auto limit = static_cast<std::int64_t>(limit_bytes);
  const std::int64_t bytes = autocast_peak_bytes(forward, framework);
  const bool fits = framework.execution == Execution::compiled
                        ? bytes <= limit
                        : bytes <= limit && autocast_fits(forward, framework, limit);
  return {fits, bytes};
}

std::optional<FrameworkUse> framework_use(const Model& model, const Training& training,
                                          const Cluster& cluster) {
  if (training.memory_of == MemoryOf::engine) return std::nullopt;
  const bool several = cluster.ranks() > 1;
  FrameworkUse use;
  use.limit_bytes = framework_limit_bytes(cluster.machine, training.memory_of, several);
  try {
    use.fit = fit_of_framework(build_graph(model, training),
                               framework_traits(training.memory_of, several), use.limit_bytes);
  } catch (const InputError& error) {
    throw InputError(broken("/training/memory_of", "{}; use 'engine'", error.what()));
  }
  return use;
}

std::optional<Plan> with_memory_of(MemoryOf whose, const Model& model, Plan plan) {
  plan.training.memory_of = whose;
  plan.training.attention = AttentionKernel::unfused;
  if (broken_rule(plan, model.sizes())) return std::nullopt;
  try {
    Training smallest = plan.training;
    smallest.micro_batch = 1;
    autocast_peak_bytes(build_graph(model, smallest), framework_traits(whose, false));
  } catch (const InputError&) {
    return std::nullopt;
  }
  return plan;
}

LargestBatch largest_framework_batch(const Model& model, const Plan& plan, const Cluster& cluster) {
  const double limit =
      framework_limit_bytes(cluster.machine, plan.training.memory_of, cluster.ranks() > 1);
  return largest_that_fits(static_cast<std::int64_t>(limit), [&](int micro_batch) {
    Training training = plan.training;
    training.micro_batch = micro_batch;
    return framework_use(model, training, cluster)->fit;
  });
}

}  // namespace meshwright::sim
