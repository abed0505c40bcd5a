// The rules about ranks that share every sequence, and how many of them exchange heads where the
// job leaves it open.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/plan/plan.h"

namespace meshwright {

// Part of verify(plan, model).
void check_context(const Plan& plan, const ModelSizes& model);

// Legal numbers of neighbours that exchange heads (context_exchange `a2a+p2p`), ascending: parts of
// the context group that leave rings of two or more, and share out all heads of a tensor rank.
std::vector<std::int64_t> choices_of_context_heads(const Parallelism& parallelism,
                                                   const ModelSizes& model);

// Of these the largest whose ranks lie on one of the hosts, by the degrees and the placement; where
// none does, the smallest; where there is none, 0.
int default_context_heads(const Parallelism& parallelism, const ModelSizes& model,
                          int ranks_per_host);

}  // namespace meshwright
