// Predicts the GPU memory of a plan that a training framework runs instead of this engine
// (training.memory_of). It is known for data parallelism in mixed precision, with unfused
// attention.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/framework/autocast_memory.h"
#include "sim/framework/memory_fit.h"

namespace meshwright::sim {

// Returns how a framework's newest version uses memory. Traits of earlier versions, which save more
// for the backward (autocast_memory.h), are off. A caller may turn them on.
FrameworkTraits framework_traits(MemoryOf whose, bool several_ranks);

// Returns the bytes of a GPU that are left for tensors: without the context, libraries' buffers
// and, for a program that XLA lays out in advance, the share that an allocator loses at best.
// Throws InputError if the machine's profile does not have the framework's share of its memory.
double framework_limit_bytes(const Machine& machine, MemoryOf whose, bool several_ranks);

// Returns whether steps fit in `limit_bytes`. An eager framework's allocator must find room for
// every request (allocator.h), a compiled program only for the peak. `forward` is a graph as
// build_graph makes it.
MemoryFit fit_of_framework(const Graph& forward, const FrameworkTraits& framework,
                           double limit_bytes);

struct FrameworkUse {
  MemoryFit fit;
  double limit_bytes = 0;
};

// Returns the memory use of a legal plan, or none if training.memory_of is the engine's. Throws
// InputError for a model with an unknown operation.
std::optional<FrameworkUse> framework_use(const Model& model, const Training& training,
                                          const Cluster& cluster);

// Returns the plan with its memory_of set to `whose` and unfused attention, or none if such a plan
// is illegal or its memory use is unknown.
std::optional<Plan> with_memory_of(MemoryOf whose, const Model& model, Plan plan);

// Returns the largest micro-batch that fits, as largest_micro_batch() does, but without lowering
// the plan for each size.
LargestBatch largest_framework_batch(const Model& model, const Plan& plan, const Cluster& cluster);

}  // namespace meshwright::sim
