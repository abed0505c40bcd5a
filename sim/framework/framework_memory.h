// What a plan takes of a GPU where a training framework runs it instead of this engine
// (training.memory_of). Known of data parallelism in mixed precision, with unfused attention.
#pragma once

#include <cstdint>
#include <optional>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/framework/autocast_memory.h"
#include "sim/framework/memory_fit.h"

namespace meshwright {

// Of the newest versions: without what earlier ones kept (autocast_memory.h).
FrameworkTraits framework_traits(MemoryOf whose, bool several_ranks);

// What is left of a GPU for tensors: without the context and, for a program that XLA lays out in
// advance, without the share that an allocator loses at its best. InputError where the machine's
// profile does not say what a framework finds.
double framework_limit_bytes(const Machine& machine, MemoryOf whose, bool several_ranks);

// `forward`: as build_graph makes it. In `limit_bytes`, an eager framework's allocator must find
// room for every request (allocator.h); a compiled program only for the fullest moment.
MemoryFit fit_of_framework(const Graph& forward, const FrameworkTraits& framework,
                           double limit_bytes);

struct FrameworkUse {
  MemoryFit fit;
  double limit_bytes = 0;
};

// Of a legal plan; nothing where training.memory_of is the engine's. InputError for a model with an
// operation of which nothing is known.
std::optional<FrameworkUse> framework_use(const Model& model, const Training& training,
                                          const Cluster& cluster);

// The plan with another word for whose memory is meant, if such a plan is legal and known.
std::optional<Plan> with_memory_of(MemoryOf whose, const Model& model, Plan plan);

// As largest_micro_batch() has it, but without lowering the plan for each size.
LargestBatch largest_framework_batch(const Model& model, const Plan& plan, const Cluster& cluster);

}  // namespace meshwright
