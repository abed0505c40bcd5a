// Blocks of moments in 8 bits (exec/core/block_codes.h) begin at every 256 elements of a whole
// parameter, so that they are the same under all degrees.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the multiple, in elements, at which parameters and shards begin in a bucket, and also
// pieces of offloaded states. It is one block for moments in 8 bits, otherwise 64 elements (256
// bytes in fp32). Types of weights in blocks may need a larger multiple.
std::int64_t alignment_of_states(const Plan& plan);

// Throws InputError, with the JSON pointer, if a rank of a tensor or expert group would hold a part
// of a block, or if the rows of a trained parameter end in padding. Does nothing unless moments
// have 8 bits. Expects a graph whose parameters are split as the plan says.
void check_blocks(const Graph& graph, const Plan& plan);

}  // namespace meshwright::compiler
