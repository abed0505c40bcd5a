// Knows words that other tools and people use for the keys and values of this program, so that a
// message can name the right one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the word of `known` that differs from `word` only in case and signs (bf16 for "BF16",
// on_demand for "on-demand"), or that other tools or people call `word` (bf16 for "bfloat16").
// Returns "" if there is none.
std::string same_as(std::string_view word, const std::vector<std::string>& known);

// Returns the keys of a job, as dotted paths, that other tools or people call `word`:
// parallelism.tensor for "tp", or both training.global_batch and training.micro_batch for
// "batch_size". The list is empty if none is known.
std::vector<std::string> job_keys_for(std::string_view word);

}  // namespace meshwright::core
