// The steps of a fused operation one after the other, each by its own kernel.
#pragma once

#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_call.h"

namespace meshwright::cuda {

// Steps on blocks of Fusion::block_rows rows (Loop::long_blocks), or on all rows at once; what they
// pass to each other lies in scratch memory, that of long blocks in the last inferred output.
// `fusion` is the call's, or has fewer of its steps.
std::int64_t workspace_of_steps(const Fusion& fusion, const OpCall& call, const Device& device);
void run_steps(const Fusion& fusion, const KernelCall& call);

}  // namespace meshwright::cuda
