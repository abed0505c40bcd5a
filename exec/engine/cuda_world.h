// Makes the world of ranks that have a GPU each. They talk over NCCL (cuda_world_nccl.cpp), or in a
// build without it through host memory (cuda_world_staged.cpp).
#pragma once

#include <functional>
#include <memory>

#include "exec/backends/cuda/cuda_backend.h"
#include "exec/engine/engine.h"

namespace meshwright {

using MakeWorldOn = std::function<std::unique_ptr<World>(CudaBackend& gpu)>;
// Every rank calls it, also one without a GPU (`device` -1): the ranks learn where the others' are.
// The arguments outlive what it returns.
MakeWorldOn meet_on_gpus(const EngineOptions& options, World& host, int device);

}  // namespace meshwright
