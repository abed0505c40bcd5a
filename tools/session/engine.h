// Makes the engine of this computer, from what a machine's profile asks for and what the
// environment specifies, and describes this computer's GPUs.
#pragma once

#include <string>

#include "exec/engine/engine.h"
#include "hwprofiles/machine.h"

namespace meshwright::session {

// Makes this rank's engine: that of the CPU, unless `cluster` has GPUs. Every rank calls it and has
// to find out whether it threw on another rank. Throws InputError if `cluster` has GPUs but this
// build or this computer has none. `host` must outlive the engine. `deadline_s` is the longest
// time, in seconds, that GPUs may wait for each other.
Engine make_engine(const Cluster& cluster, EngineOptions options, World& host, double deadline_s);

int gpus_here();  // number of GPUs; 0 if this build has no CUDA backend

// Describes a GPU of this computer by properties that need no measurement.
struct GpuHere {
  Gpu gpu;                      // name, sizes and clock
  int generation = 0;           // compute capability, 90 for 9.0
  double workspace_bytes = 0;   // memory that the backend takes for matmuls
  bool reaches_others = false;  // can access the memory of the other GPUs here
};
GpuHere gpu_here(int index);
// Returns the folder for files that can be made again: $XDG_CACHE_HOME/meshwright, or
// ~/.cache/meshwright if XDG_CACHE_HOME is not set. Returns "" if HOME is not set either.
std::string cache_folder();
// Returns the folder for compiled kernels, in cache_folder().
std::string kernel_folder();

}  // namespace meshwright::session
