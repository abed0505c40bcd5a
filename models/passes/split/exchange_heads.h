// Attention over sequences that a context group shares, by heads (Jacobs et al., "DeepSpeed
// Ulysses", 2023): an exchange of all ranks with all gives each rank some heads of whole sequences,
// attention is that of one rank, and another exchange gives each rank all heads of its own tokens.
// Queries, keys and values are kept for the backward as attention reads them; their gradients and
// that of its output go the same ways back.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph exchange_heads(Graph graph, const Plan& plan);

}  // namespace meshwright
