// Copies numbers to and from device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "models/core/dtype.h"

// Copies f64, f32, f16 or bf16 values, and returns when they have arrived.
void upload(void* to, const std::vector<double>& numbers, meshwright::core::Dtype dtype,
            cudaStream_t stream);
std::vector<double> download(const void* from, std::int64_t elements, meshwright::core::Dtype dtype,
                             cudaStream_t stream);
// Returns the values as they are after being stored in `dtype`.
std::vector<double> as_stored(const std::vector<double>& numbers, meshwright::core::Dtype dtype);
