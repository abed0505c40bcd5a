// Searches the plans of a job. If none fits in memory, more keys are left to the planner than the
// job leaves.
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
  // "parallelism.offload=optimizer". The list is empty if a plan fits without, or if none fits with
  // them either.
  std::vector<std::string> opened;
};

// Searches the plans. As long as none fits in memory, opens one more key that the job fixes and
// searches again: the micro-batch, the recomputation, and offloading of activations. At last, if
// offloading is open, tries offloading of the optimizer's states. A key is opened only if
// `may_open` returns true for it. Throws InputError like search().
FittingSearch search_until_fits(Job job, const SearchOptions& options,
                                const std::function<bool(std::string_view key)>& may_open);

// Searches like search_until_fits(), and opens only keys that the job leaves out, so that the
// values that it sets stay.
FittingSearch search_left_out(const Job& job, const SearchOptions& options);

}  // namespace meshwright::sim
