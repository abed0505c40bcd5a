// Runs fp32 kernels on operands that are stored in 16 bits, piece by piece as
// models/program/graph/widen.h splits them. Every sum is made in fp32 (fp64 if the kernel does so),
// and each result is rounded once when it is stored. Scratch memory is context.workspace, which has
// widened_bytes(call) bytes.
#pragma once

#include "exec/backends/cpu/kernels.h"

namespace meshwright::exec::cpu {

// Runs `kernel`, the operation's fp32 kernel, on widened copies of the operands, and stores the
// results in 16 bits.
void run_widened(Kernel kernel, const KernelCall& call);

// Runs a linear layer, or one of its gradients, on operands in 16, 8 or 4 bits (product_of).
void multiply_widened(const KernelCall& call);
// Runs multiply_widened() for each expert's rows: the experts' linear layers, or one of their
// gradients (expert_product_of).
void multiply_experts_widened(const KernelCall& call);

}  // namespace meshwright::exec::cpu
