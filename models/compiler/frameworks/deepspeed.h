// Defaults of DeepSpeed's ZeRO.
#pragma once

#include <cstdint>

namespace meshwright {

// reduce_bucket_size; without ZeRO the engine's own, MEMORY_OPT_ALLREDUCE_SIZE.
constexpr std::int64_t deepspeed_bucket_elements = 500'000'000;
constexpr std::int64_t deepspeed_live_parameters = 1'000'000'000;
constexpr std::int64_t deepspeed_persistence_threshold = 100'000;

}  // namespace meshwright
