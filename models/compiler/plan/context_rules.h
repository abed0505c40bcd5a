// The number of ranks of a context group that exchange heads: which numbers are legal, and which
// one is the default.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

// Returns the legal numbers of neighbours that exchange heads (context_exchange `a2a+p2p`), in
// ascending order. They are at least 2, divide the context group into rings of two or more ranks,
// and divide the heads of a tensor rank. The list is empty if there are none.
std::vector<std::int64_t> choices_of_context_heads(const Parallelism& parallelism,
                                                   const ModelSizes& model);

// Returns the largest of choices_of_context_heads() whose ranks are on one host, by the degrees and
// the placement. Returns the smallest choice if none of them is on one host, and 0 if there is no
// choice.
int default_context_heads(const Parallelism& parallelism, const ModelSizes& model,
                          int ranks_per_host);

}  // namespace meshwright::compiler
