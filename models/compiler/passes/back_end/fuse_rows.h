// Fuses neighbouring operations that work row by row into one operation that runs on a block of
// rows at a time. Tensors between them then stay in a cache (models/program/graph/fusion.h), and a
// tensor that several of them read is read from memory once.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph fuse_rows(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
