// Defaults of DeepSpeed's ZeRO, as numbers of elements.
#pragma once

#include <cstdint>

namespace meshwright::compiler {

// The default of reduce_bucket_size. It is also the bucket without ZeRO, DeepSpeed's
// MEMORY_OPT_ALLREDUCE_SIZE.
constexpr std::int64_t deepspeed_bucket_elements = 500'000'000;
constexpr std::int64_t deepspeed_live_parameters = 1'000'000'000;
constexpr std::int64_t deepspeed_persistence_threshold = 100'000;

}  // namespace meshwright::compiler
