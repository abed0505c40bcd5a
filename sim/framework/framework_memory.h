// Predicts the GPU memory of a plan that a training framework runs instead of this engine
// (training.memory_of). The prediction covers data parallelism in mixed precision, with unfused
// attention.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/framework/autocast_memory.h"
#include "sim/framework/memory_fit.h"

namespace meshwright::sim {

// Returns how the newest version of a framework uses memory. The traits of earlier versions that
// save more for the backward pass (autocast_memory.h) are off. A caller may turn them on.
FrameworkTraits framework_traits(MemoryOf whose, bool several_ranks);

// Returns the bytes of a GPU that are left for tensors. They exclude the CUDA context, libraries'
// buffers and, for a program that XLA lays out in advance, the share that its allocator loses at
// least. Throws InputError if the machine's profile does not say how much memory frameworks find.
double framework_limit_bytes(const Machine& machine, MemoryOf whose, bool several_ranks);

// Returns whether steps fit in `limit_bytes`, and the peak of their bytes. For an eager framework
// the allocator must also find room for every request (allocator.h). `forward` is a graph as
// build_graph makes it. Throws InputError like autocast_peak_bytes().
MemoryFit fit_of_framework(const Graph& forward, const FrameworkTraits& framework,
                           double limit_bytes);

struct FrameworkUse {
  MemoryFit fit;
  double limit_bytes = 0;
};

// Returns the memory use of a legal plan, or none if training.memory_of is the engine. Throws
// InputError for a model with an operation whose memory use is not known, and for a machine whose
// profile does not say how much memory frameworks find.
std::optional<FrameworkUse> framework_use(const Model& model, const Training& training,
                                          const Cluster& cluster);

// Returns the plan with its memory_of set to `whose` and with unfused attention, or none if such a
// plan is illegal or its memory use is unknown.
std::optional<Plan> with_memory_of(MemoryOf whose, const Model& model, Plan plan);

// Returns the largest micro-batch that fits in the memory of the framework that the plan names, 0
// if none does, and its peak. Unlike largest_micro_batch(), it does not compile the plan for each
// size. Throws InputError like framework_use().
LargestBatch largest_framework_batch(const Model& model, const Plan& plan, const Cluster& cluster);

}  // namespace meshwright::sim
