// Runs fp32 kernels on operands that are stored in 16 bits: piece by piece, as
// models/program/graph/widen.h cuts them. Every sum is made in fp32 (fp64 where the kernel does);
// what is stored is rounded once. The scratch memory is context.workspace, widened_bytes(call) of
// it.
#pragma once

#include "exec/backends/cpu/kernels.h"

namespace meshwright::cpu {

// Runs `kernel`, which is the fp32 one.
void run_widened(Kernel kernel, const KernelCall& call);

// Multiplies for a linear layer or one of its gradients (product_of).
void multiply_widened(const KernelCall& call);
// Multiplies the rows of all experts in the same way (expert_product_of).
void multiply_experts_widened(const KernelCall& call);

}  // namespace meshwright::cpu
