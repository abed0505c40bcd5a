// Finds a global batch near the one of a job that trains more tokens a second, because it has a
// larger common divisor with the number of ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/planner/search.h"

namespace meshwright::sim {

struct NearBatch {
  std::int64_t global_batch = 0;
  double faster = 0;  // relative gain in tokens per second over the job's batch
};

// Returns the batch within an eighth of the job's that has the largest common divisor with the
// number of ranks of `best`, and the nearest one among several. `best` is the best plan of the
// job's own batch. Returns nothing if the ranks divide the job's batch, if it exceeds 2^20
// sequences, if no batch near it has a larger common divisor, or if the best plan of the new batch
// on the cluster of `best` is not at least 2 % faster.
std::optional<NearBatch> near_batch(const Job& job, const RankedPlan& best,
                                    const SearchOptions& options);

}  // namespace meshwright::sim
