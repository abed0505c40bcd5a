// Runs the Programs of a captured model (models/program/graph/segment.h): PyTorch computes the
// segments in the same memory, and another backend does the rest (buckets, norms, the optimizer).
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "exec/backends/backend.h"
#include "exec/optimizer/updater.h"

namespace meshwright::exec {

// Computes an operation of a segment, of its gradient or of its loss, adds gradients (Op::add), or
// copies what a stage passes on (Op::scale by 1), with the meaning that segment.h and op.h give it.
// Called on the thread that runs the step.
using RunSegment =
    std::function<void(const OpCall& call, const OpOperands& operands, const OpContext& context)>;

// The script's own optimizer of PyTorch, which takes the place of `inner`'s in steps that it is to
// update. `update` then gets each bucket's segments and states, and the scalars of the step. A
// `number` stands for the same segments and states in every step.
struct ScriptOptimizer {
  bool updates = false;  // the next step; set before it
  std::function<void(int number, std::span<const OptimizerSegment> segments,
                     const OptimizerState& state, const OptimizerScalars& scalars)>
      update;
};

// Returns a backend that gives these operations to `run`, and everything else to `inner`. Steps are
// not captured as a graph, because PyTorch allocates memory in them. `inner` and `own` must outlive
// it.
std::unique_ptr<Backend> make_segment_backend(Backend& inner, RunSegment run,
                                              const ScriptOptimizer& own);

}  // namespace meshwright::exec
