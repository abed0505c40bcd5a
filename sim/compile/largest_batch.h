// The largest micro-batch of a plan that fits: memory alone decides, nothing is simulated.
#pragma once

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/framework/memory_fit.h"

namespace meshwright {

// `plan` is legal, with its stages filled in. Everything but micro_batch and global_batch stays,
// the number of micro-batches too. What it leaves to the compiler is decided for least memory.
LargestBatch largest_micro_batch(const Model& model, const Plan& plan, const Cluster& cluster);

// `plan` with another micro-batch and the global batch that goes with it.
Plan with_micro_batch(Plan plan, int micro_batch);

}  // namespace meshwright
