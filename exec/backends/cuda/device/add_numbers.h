// to[i] += from[i] on a device, for communicators: NCCL sums over ranks but adds to nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::cuda {

// f32, f64, and f16 and bf16 (added in fp32, rounded once). They do not overlap, or are the same.
// Issued on the stream; RunError for another type.
void add_numbers(void* to, const void* from, std::int64_t count, Dtype dtype, cudaStream_t stream);

}  // namespace meshwright::cuda
