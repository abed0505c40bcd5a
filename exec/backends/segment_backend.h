// Runs the Programs of a captured model (models/program/graph/segment.h): PyTorch computes the
// segments in the same memory, and another backend does the rest (buckets, norms, the optimizer).
#pragma once

#include <functional>
#include <memory>

#include "exec/backends/backend.h"

namespace meshwright::exec {

// Computes an operation of a segment, of its gradient or of its loss, adds gradients (Op::add), or
// copies what a stage passes on (Op::scale by 1), with the meaning that segment.h and op.h give it.
// Called on the thread that runs the step.
using RunSegment =
    std::function<void(const OpCall& call, const OpOperands& operands, const OpContext& context)>;

// Returns a backend that gives these operations to `run`, and everything else to `inner`, which
// must outlive it. Steps are not captured as a graph, because PyTorch allocates memory in them.
std::unique_ptr<Backend> make_segment_backend(Backend& inner, RunSegment run);

}  // namespace meshwright::exec
