// The rules about ranks that share every sequence, and how many of them exchange heads where the
// job leaves it open.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/plan/plan.h"

namespace meshwright {

// Checks these rules as a part of verify(plan, model).
void check_context(const Plan& plan, const ModelSizes& model);

// Returns the legal numbers of neighbours that exchange heads (context_exchange `a2a+p2p`), in
// ascending order. They are parts of the context group that leave rings of two or more, and share
// out all heads of a tensor rank.
std::vector<std::int64_t> choices_of_context_heads(const Parallelism& parallelism,
                                                   const ModelSizes& model);

// Returns the largest of these numbers whose ranks are on one host, by the degrees and the
// placement. Returns the smallest one if none are, and 0 if there is no legal number.
int default_context_heads(const Parallelism& parallelism, const ModelSizes& model,
                          int ranks_per_host);

}  // namespace meshwright
