// Runs the steps of a fused operation one after the other, each by its own kernel.
#pragma once

#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

// workspace_of_steps() returns the bytes of scratch memory that run_steps() needs, and prepares
// libraries for the steps. Steps run on blocks of Fusion::block_rows rows (Loop::long_blocks), or
// on all rows at once. They pass data to each other in scratch memory, or with long blocks in the
// operation's last inferred output. `fusion` is the fusion of the call, or has fewer of its steps.
std::int64_t workspace_of_steps(const Fusion& fusion, const OpCall& call, const Device& device);
void run_steps(const Fusion& fusion, const KernelCall& call);

}  // namespace meshwright::exec::cuda
