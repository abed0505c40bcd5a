// Where blocks of moments in 8 bits fall (exec/core/block_codes.h): at every 256 elements of a
// whole parameter, so that they are the same under all degrees.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Parameters begin at multiples of so many elements of a bucket, and shards, pieces of offloaded
// states and slices of snapshots too: 256 bytes in fp32, or a block.
std::int64_t alignment_of_states(const Plan& plan);

// The graph's parameters are cut as the plan says. Throws InputError with the JSON pointer where a
// rank of a tensor or expert group would hold a part of a block.
void check_blocks(const Graph& graph, const Plan& plan);

}  // namespace meshwright
