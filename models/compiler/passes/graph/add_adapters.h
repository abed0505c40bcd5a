// Adds low-rank adapters (LoRA, Hu et al. 2021) to the linear layers that training.lora names: y =
// W x becomes W x + (alpha / rank) * B A x. Only A and B are trained, and a head that predicts
// classes.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Runs after the splits over ranks. If a layer is split by its outputs, B is split like W and every
// rank has all of A. If it is split by its inputs, A is split and every rank has all of B.
// Micro-batches therefore need no further communication: the matrix that every rank has gets
// partial gradients, which are summed over the tensor group once a step. Throws InputError if
// target_modules names a layer that cannot be adapted.
Graph add_adapters(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
