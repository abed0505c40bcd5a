// Splits attention by heads, over sequences that a context group shares (Jacobs et al., "DeepSpeed
// Ulysses", 2023). An all-to-all gives each rank some heads of whole sequences. Attention is then
// computed as on one rank, and another all-to-all gives each rank all heads of its own tokens.
// Queries, keys and values are saved for the backward as attention reads them. Their gradients, and
// that of attention's output, go the same ways back.
//
// If only neighbours in the group exchange heads (`a2a+p2p`), they get some heads of the tokens of
// all of them. These are the tokens of one rank of a smaller context group
// (models/program/graph/context.h), and ring_attention.h splits attention over that group (Fang and
// Zhao, "USP", 2024).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph exchange_heads(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
