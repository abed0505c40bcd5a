// What the framework of a published step keeps on a GPU beside what its plan needs here.
#pragma once

#include <cstdint>
#include <string>

#include "models/compiler/compile.h"
#include "sim/predict/predict.h"

namespace meshwright {

// The peak of the fullest stage with it. Of bytes alone:
//
// OneFlow keeps what a backward needs in twice as many buffers as there are stages, on all but the
// last (oneflow/core/job_rewriter/pipeline_buffer_pass.cpp), and lays them out in advance.
//
// Alpa joins all reductions of gradients over replicas into one, which does not work in place
// (all_reduce_threshold in alpa/shard_parallel/auto_sharding.py): after the backward, when
// activations are gone, gradients are there twice.
//
// Megatron-LM's loss, unless it is told to fuse it with others' kernels, makes a copy of the logits
// in fp32, of which it keeps what the gradient is made of (_VocabParallelCrossEntropy in
// megatron/core/tensor_parallel/cross_entropy.py).
//
// PyTorch's stages keep what they sent, the last one its logits, of all micro-batches until the
// step ends, and have buffers for all that they receive
// (torch/distributed/pipelining/stage.py). Pipelines of FSDP are PyTorch's.
std::int64_t peak_with_framework(const std::string& title, const Compiled& compiled,
                                 const Prediction& prediction);

}  // namespace meshwright
