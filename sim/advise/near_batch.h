// Finds a global batch near the job's that the ranks divide better.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/planner/search.h"

namespace meshwright::sim {

struct NearBatch {
  std::int64_t global_batch = 0;
  double faster = 0;  // by which share it trains more tokens a second than the job's batch
};

// Returns the batch nearest to the job's, at most an eighth away, that more ranks divide, if it is
// faster by at least 2 % on the cluster of `best`, which is the best plan of the job's own batch.
// Returns nothing if the ranks divide the job's batch.
std::optional<NearBatch> near_batch(const Job& job, const RankedPlan& best,
                                    const SearchOptions& options);

}  // namespace meshwright::sim
