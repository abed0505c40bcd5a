// muon: momenta made orthogonal on a device (exec/optimizer/optimizer.h).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "exec/backends/cuda/products/products.h"
#include "exec/optimizer/optimizer.h"

namespace meshwright::cuda {

// Doubles that a matrix's norm is summed in.
constexpr int norm_parts = 256;

// Does what cpu::orthogonalize does. `partial` holds norm_parts doubles. It issues the work and
// returns.
void orthogonalize(Products& products, const WholeMatrix& matrix, const float* parts,
                   std::int64_t distance, float* own, float* scratch, double* partial,
                   cudaStream_t stream);

}  // namespace meshwright::cuda
