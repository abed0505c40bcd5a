// to[i] += from[i] on a device, for communicators: NCCL sums over ranks but adds to nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::cuda {

// Adds elements of f32, f64, or of f16 and bf16 (added in fp32, rounded once). The arrays do not
// overlap, or are the same. The work is issued on the stream. Throws RunError for another type.
void add_numbers(void* to, const void* from, std::int64_t count, Dtype dtype, cudaStream_t stream);

}  // namespace meshwright::cuda
