// Runs a fused operation (models/program/graph/fusion.h) block of rows by block of rows, with the
// kernels of its steps.
#pragma once

#include "exec/backends/cpu/kernels.h"

namespace meshwright::exec::cpu {

void run_fused(const KernelCall& call);

// Runs any operation of the backend by its table of kernels (cpu_backend.cpp).
void run_operation(const KernelCall& call);

}  // namespace meshwright::exec::cpu
