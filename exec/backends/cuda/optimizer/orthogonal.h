// Makes the momentum matrices of the optimizer Muon approximately orthogonal, on a device
// (exec/optimizer/optimizer.h).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "exec/backends/cuda/products/products.h"
#include "exec/optimizer/optimizer.h"

namespace meshwright::exec::cuda {

// The number of partial sums that are added up to a matrix's squared norm.
constexpr int norm_parts = 256;

// Does on the device what cpu::orthogonalize() in exec/backends/cpu/orthogonal.h does. `partial` is
// scratch memory for norm_parts doubles. The call returns once the work is issued.
void orthogonalize(Products& products, const WholeMatrix& matrix, const float* parts,
                   std::int64_t distance, float* own, float* scratch, double* partial,
                   cudaStream_t stream);

}  // namespace meshwright::exec::cuda
