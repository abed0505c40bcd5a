// Context parallelism: every rank works on its own tokens of each sequence
// (models/program/graph/context.h). Operations except attention work token by token and stay as
// they are. Later passes split attention by heads (exchange_heads.h), by tokens (ring_attention.h)
// or by both. Throws InputError for heads that predict from chosen positions of a sequence.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph split_context(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
