// Splits the time of a step by kinds of kernels, in the same parts for a step of any framework that
// a profiler measured and for a predicted one.
#pragma once

#include <string>
#include <vector>

#include "sim/predict/profiler_trace.h"
#include "sim/predict/step_parts.h"

namespace meshwright::sim {

struct CommunicationTime {
  KernelKind kind = KernelKind::all_reduce;
  SimTime time = 0;     // in flight, whatever else was
  SimTime exposed = 0;  // in flight without compute, and not covered by an earlier one
};

struct NamedKernel {
  std::string name;
  KernelKind kind = KernelKind::other;
  SimTime time = 0;  // of all runs in a step
  std::int64_t runs = 0;
};

// The parts are each kind of compute, "exposed" each kind of communication, and "launch gaps", in
// which the device computes nothing and no communication is in flight. They sum to the step time.
// Every step has the same parts in the same order.
struct KernelParts {
  StepParts parts;
  std::vector<CommunicationTime> communication;  // that there is
  std::vector<NamedKernel> kernels;              // of a profile: the longest first
  std::int64_t steps = 1;                        // of a profile: the parts are their mean
  std::int64_t first_step = -1, last_step = -1;  // N of ProfilerStep#N; -1: none is marked
};

// Returns the parts of a rank of `program`'s stage, from the step's begin to `step_time`. Its
// entries in the timeline are those of `rank`. The simulator lets messages and collectives of
// several stages begin when all ranks are ready, but NCCL begins before and waits in them. The idle
// time right before them therefore counts as part of them.
KernelParts predicted_kernel_parts(const Program& program, const Cluster& cluster,
                                   const Timeline& timeline, int rank, SimTime step_time);

// Returns the mean of the steps that the trace marks. Without any, all that the device did is one
// step. On the device a step begins when the host has begun it and the device has done what was
// launched before. It ends where the next one begins, because hosts run ahead of devices. Throws
// InputError, which begins with `path`, if no kernel lies in any step.
KernelParts profiled_kernel_parts(const ProfilerTrace& trace, const std::string& path);

}  // namespace meshwright::sim
