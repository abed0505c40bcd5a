// How many ranks that share every sequence (context parallelism) may exchange heads, and how many
// do if the job leaves that open.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

// Returns the legal numbers of neighbours that exchange heads (context_exchange `a2a+p2p`), in
// ascending order. They divide the context group into rings of two or more ranks, and divide the
// heads of a tensor rank. The list is empty if there are none.
std::vector<std::int64_t> choices_of_context_heads(const Parallelism& parallelism,
                                                   const ModelSizes& model);

// Returns the largest of choices_of_context_heads() whose ranks are on one host, by the degrees and
// the placement. Returns the smallest one if none are, and 0 if there is no legal number.
int default_context_heads(const Parallelism& parallelism, const ModelSizes& model,
                          int ranks_per_host);

}  // namespace meshwright::compiler
