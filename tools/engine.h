// The engine of this computer as the commands use it: what a profile asks for, and what the
// environment says.
#pragma once

#include <string>

#include "exec/engine/engine.h"
#include "hwprofiles/machine.h"

namespace meshwright {

// `cluster` is this computer. GPUs in order of the ranks of a host, each with one rank of it; where
// ranks share GPUs all talk through host memory. Every rank calls it, and has to know whether it
// has thrown elsewhere: InputError where this build or this computer has no GPU. `host` outlives
// the engine; `deadline_s`: the longest that GPUs may wait for each other.
Engine make_engine(const Cluster& cluster, EngineOptions options, World& host, double deadline_s);

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
