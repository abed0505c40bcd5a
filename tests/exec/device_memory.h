// Numbers to and from device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "models/core/dtype.h"

// f64, f32, f16 or bf16; returns when they are there.
void upload(void* to, const std::vector<double>& numbers, meshwright::Dtype dtype,
            cudaStream_t stream);
std::vector<double> download(const void* from, std::int64_t elements, meshwright::Dtype dtype,
                             cudaStream_t stream);
// What is left of them when they are stored.
std::vector<double> as_stored(const std::vector<double>& numbers, meshwright::Dtype dtype);
