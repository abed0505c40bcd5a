// muon: the orthogonal matrix that is nearest to a momentum, about (exec/optimizer/optimizer.h).
#pragma once

#include <cstdint>

#include "exec/core/thread_pool.h"
#include "exec/optimizer/optimizer.h"

namespace meshwright::cpu {

// `parts`: those of all ranks that share the matrix, `distance` elements apart; `own` takes this
// rank's part of the result. `scratch`: muon_scratch_elements of it.
void orthogonalize(ThreadPool& pool, const WholeMatrix& matrix, const float* parts,
                   std::int64_t distance, float* own, float* scratch);

}  // namespace meshwright::cpu
