// Finds the largest micro-batch of a plan that fits in memory. Nothing is simulated for this.
#pragma once

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/framework/memory_fit.h"

namespace meshwright::sim {

// Returns the largest micro-batch that fits in the memory of the devices and the hosts, 0 if none
// does, and its peak device memory. `plan` is legal, with its stages filled in. Only micro_batch
// and global_batch change, so the number of micro-batches stays the same. Choices that the plan
// leaves to the compiler are made for least memory.
LargestBatch largest_micro_batch(const Model& model, const Plan& plan, const Cluster& cluster);

// Returns `plan` with another micro-batch, and with the global batch that keeps its number of
// micro-batches.
Plan with_micro_batch(Plan plan, int micro_batch);

}  // namespace meshwright::sim
