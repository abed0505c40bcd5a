// Reads the trace of one rank by PyTorch's profiler (torch.profiler's export_chrome_trace, with the
// library Kineto): which kernels its device ran when, and when the host was in which step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/core/units.h"
#include "sim/predict/kernel_kind.h"

namespace meshwright::sim {

struct ProfiledKernel {
  std::string name;
  KernelKind kind = KernelKind::other;
  SimTime begin = 0, end = 0;
  SimTime launched = 0;  // when the host launched it; `begin` if the trace does not say
};

struct ProfiledStep {
  std::int64_t number = 0;     // the number N in ProfilerStep#N
  SimTime begin = 0, end = 0;  // on the host
};

// The contents of a trace. Times count from the first event that is read. They are rounded to whole
// nanoseconds and given in picoseconds. Lists are sorted by their begin.
struct ProfilerTrace {
  std::vector<ProfiledKernel> kernels;  // with copies and fills of memory, all of one device
  std::vector<ProfiledStep> steps;      // empty: the profiler was not told of steps
  SimTime end = 0;                      // the last end of a kernel or a step
  // Set if the trace names them, because torch.distributed was in use.
  std::optional<int> rank, world_size;
};

// Reads a trace. Returns nothing if the file is well-formed JSON, but not of this profiler. Throws
// InputError if the file cannot be read, is truncated, damaged or compressed, holds wrong numbers,
// or holds no kernel of a GPU or those of several GPUs, with a message for each case.
std::optional<ProfilerTrace> read_profiler_trace(const std::string& path);

}  // namespace meshwright::sim
