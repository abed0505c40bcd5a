// Knows words that other tools and people use for the keys and values of this program, so that a
// message can name the right one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the word of `known` that `word` is another spelling of ("BF16" for bf16, "on-demand" for
// on_demand), or that stands for the same ("tp" for tensor, "bfloat16" for bf16). Empty if there is
// none. Readers call it for words that they do not know.
std::string same_as(std::string_view word, const std::vector<std::string>& known);

// Returns the keys of a job, as dotted paths, that `word` stands for: "tp" is parallelism.tensor,
// "batch_size" may be one of two. Empty if there is none.
std::vector<std::string> job_keys_for(std::string_view word);

}  // namespace meshwright::core
