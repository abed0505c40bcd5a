// Searches the plans of a job. If none fits in memory, it leaves more keys to the planner.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/planner/search.h"

namespace meshwright::sim {

struct FittingSearch {
  SearchResult result;
  // The keys that were opened because nothing else fits: "training.recompute", or, set to a value,
  // "parallelism.offload=optimizer". Empty if a plan fits without, or if none fits with it either.
  std::vector<std::string> opened;
};

// Searches the plans. As long as none fits in memory, opens one more key and searches again: the
// micro-batch, the recomputation, offloading of activations, and at last offloading of the
// optimizer's states. A key is opened only if `may_open` says so. Throws InputError like search().
FittingSearch search_until_fits(Job job, const SearchOptions& options,
                                const std::function<bool(std::string_view key)>& may_open);

// Returns the same for keys that the job leaves out. `plan` and `scale` keep what the job says.
FittingSearch search_left_out(const Job& job, const SearchOptions& options);

}  // namespace meshwright::sim
