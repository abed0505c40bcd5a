// muon: replaces a momentum matrix by about the nearest orthogonal matrix
// (exec/optimizer/optimizer.h).
#pragma once

#include <cstdint>

#include "exec/core/thread_pool.h"
#include "exec/optimizer/optimizer.h"

namespace meshwright::exec::cpu {

// Makes the matrices of a segment about orthogonal and writes this rank's part of them to `own`.
// `parts` holds the parts of all ranks that share the matrices, each `distance` elements after the
// one before. For matrices [r,c], `scratch` has 2 r c + 2 min(r, c)^2 elements.
void orthogonalize(ThreadPool& pool, const WholeMatrix& matrix, const float* parts,
                   std::int64_t distance, float* own, float* scratch);

}  // namespace meshwright::exec::cpu
