// Makes the world of ranks on GPUs. In a build with NCCL, they talk over NCCL if each has a GPU of
// its own, or if an option demands it (cuda_world_nccl.cpp). Otherwise, and in a build without
// NCCL, they talk through host memory (cuda_world_staged.cpp).
#pragma once

#include <functional>
#include <memory>

#include "exec/backends/cuda/cuda_backend.h"
#include "exec/engine/engine.h"

namespace meshwright::exec {

using MakeWorldOn = std::function<std::unique_ptr<World>(CudaBackend& gpu)>;
// Exchanges the places of all ranks' GPUs, in a build with NCCL. Returns a function that makes the
// world on this rank's GPU. Every rank calls it, also one without a GPU (`device` -1). The
// arguments must outlive the function.
MakeWorldOn meet_on_gpus(const EngineOptions& options, World& host, int device);

}  // namespace meshwright::exec
