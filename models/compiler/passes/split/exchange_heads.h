// Attention over sequences that a context group shares, by heads (Jacobs et al., "DeepSpeed
// Ulysses", 2023): an exchange of all ranks with all gives each rank some heads of whole sequences,
// attention is that of one rank, and another exchange gives each rank all heads of its own tokens.
// Queries, keys and values are kept for the backward as attention reads them; their gradients and
// that of its output go the same ways back.
//
// Where a part of the group alone exchanges heads (`a2a+p2p`), its ranks get some heads of the
// tokens of all of them, which are one rank's of a smaller context group
// (models/program/graph/context.h): ring_attention.h does the rest (Fang and Zhao, "USP", 2024).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph exchange_heads(Graph graph, const Plan& plan);

}  // namespace meshwright
