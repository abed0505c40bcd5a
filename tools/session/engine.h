// Makes the engine of this computer for the commands, from what a profile asks for and what the
// environment specifies.
#pragma once

#include <string>

#include "exec/engine/engine.h"
#include "hwprofiles/machine.h"

namespace meshwright::session {

// Makes this rank's engine. `cluster` is this computer, whose GPUs serve the ranks of a host in
// order, each with one rank. If ranks share GPUs, all communicate through host memory. Every rank
// calls it and has to find out whether it threw on another rank. Throws InputError if `cluster` has
// GPUs but this build or this computer has none. `host` must outlive the engine. `deadline_s` is
// the longest time that GPUs may wait for each other.
Engine make_engine(const Cluster& cluster, EngineOptions options, World& host, double deadline_s);

int gpus_here();  // number of GPUs; 0 if this build has no CUDA backend

// Properties of a GPU of this computer that need no measurement.
struct GpuHere {
  Gpu gpu;                      // name, sizes and clock
  int generation = 0;           // compute capability, 90 for 9.0
  double workspace_bytes = 0;   // what the backend takes for matmuls
  bool reaches_others = false;  // can access the memory of the other GPUs here
};
GpuHere gpu_here(int index);
// Returns the folder of what can be made again: $XDG_CACHE_HOME/meshwright, or ~/.cache/meshwright
// if XDG_CACHE_HOME is not set. Empty if HOME is not set either.
std::string cache_folder();
// Returns the folder of compiled kernels.
std::string kernel_folder();

}  // namespace meshwright::session
