// Adds the memory that the framework of a published step uses in addition to what its plan needs in
// this engine.
#pragma once

#include <cstdint>
#include <string>

#include "models/compiler/compile.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

// Returns the peak memory, in bytes, of the stage that needs most, including what the framework
// named in `title` keeps:
//
// OneFlow keeps the data for the backward in twice as many buffers as there are stages, on all but
// the last stage (oneflow/core/job_rewriter/pipeline_buffer_pass.cpp), and allocates them in
// advance.
//
// Alpa joins all reductions of gradients over replicas into one, which does not work in place
// (all_reduce_threshold in alpa/shard_parallel/auto_sharding.py). After the backward, when
// activations are freed, it therefore holds the gradients twice.
//
// Megatron-LM's loss makes a copy of the logits in fp32 and saves it for the gradient
// (_VocabParallelCrossEntropy in megatron/core/tensor_parallel/cross_entropy.py). Its option to
// fuse the loss is assumed to be off.
//
// PyTorch's stages keep what they sent (the last stage its logits) of all micro-batches until the
// step ends, and have buffers for all that they receive (torch/distributed/pipelining/stage.py).
// Every plan with ZeRO 3 counts as PyTorch's, whatever `title` names.
std::int64_t peak_with_framework(const std::string& title, const Compiled& compiled,
                                 const Prediction& prediction);

}  // namespace meshwright::sim
