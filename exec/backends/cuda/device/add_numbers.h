// Adds arrays on a device, for communicators: NCCL sums over ranks, but cannot add the sum to
// values that are already there.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::exec::cuda {

// Computes to[i] += from[i] for elements of f32 or f64, or of f16 or bf16 (added in fp32, rounded
// once). The arrays must not overlap, unless they are the same. The work is issued on the stream.
// Throws RunError for another type, or if the kernel cannot be started.
void add_numbers(void* to, const void* from, std::int64_t count, Dtype dtype, cudaStream_t stream);

}  // namespace meshwright::exec::cuda
