// What a rank of this computer computes with: the cores of its processor, or one of its GPUs.
#pragma once

#include <memory>
#include <string>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"
#include "hwprofiles/machine.h"
#include "models/core/dtype.h"

namespace meshwright {

struct Engine {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<World> on_device;  // null where the backend's memory is the host's
  // Its groups and its memory are on the backend. `host`: what make_engine was given.
  World& world(World& host) const { return on_device ? *on_device : host; }
};

// `cluster` is this computer. GPUs in order of the ranks of a host, each with one rank of it; where
// ranks share GPUs all talk through host memory. Every rank calls it, and has to know whether it
// has thrown elsewhere: InputError where this build or this computer has no GPU. `host` outlives
// the engine; `deadline_s`: the longest that GPUs may wait for each other.
struct EngineOptions {
  Precision precision = Precision::fp32;
  bool deterministic = false;
  int threads = 1;
};
Engine make_engine(const Cluster& cluster, const EngineOptions& options, World& host,
                   double deadline_s);

int gpus_here();  // 0 where this build has no CUDA backend

// What needs no measurement.
struct GpuHere {
  Gpu gpu;                      // name, sizes and clock
  int generation = 0;           // compute capability, 90 for 9.0
  double workspace_bytes = 0;   // that the backend takes for matrix products
  bool reaches_others = false;  // the memory of the computer's other GPUs
};
GpuHere gpu_here(int index);
// $XDG_CACHE_HOME/meshwright/kernels, or in ~/.cache: of compiled kernels.
std::string kernel_folder();

}  // namespace meshwright
