// Memory of a step in PyTorch, which allocates gradients in the backward and drops them after the
// update, and frees what the forward saved as soon as the backward has used it. The engine has a
// place for each gradient and each saved tensor during the whole step.
#pragma once

#include <array>
#include <cstdint>

#include "models/program/program.h"

namespace meshwright::sim {

// Returns whether a step's gradients are allocated during its backward, one by one: in
// transformers, accelerate and plain PyTorch, with one micro-batch in a step and without the
// buffers of DistributedDataParallel. DeepSpeed has buffers for gradients. torchtitan's memory is
// known as what its allocator reserved, in which blocks that gradients had remain.
bool makes_gradients_anew(const StepSettings& training, int stages, int micro_batches,
                          bool has_ddp_buffers);

// Returns the bytes of each memory class at the moment of the step at which PyTorch holds most, on
// the ranks that own most (Program::fullest). `program` is the only stage of a job for which
// makes_gradients_anew() holds. The update of transformers' AdamW (adamw_torch, PyTorch's foreach
// kernels) holds one more tensor of each moment's size.
std::array<std::int64_t, memory_class_count> peak_in_pytorch(const Program& program);

}  // namespace meshwright::sim
