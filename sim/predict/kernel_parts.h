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
  SimTime time = 0;  // sum of the times of its kernels in a step, covered by compute or not
  // Part of the step without compute that is attributed to it (device_times.h).
  SimTime exposed = 0;
};

struct NamedKernel {
  std::string name;
  KernelKind kind = KernelKind::other;
  SimTime time = 0;  // of all runs in a step, as a mean over the steps
  std::int64_t runs = 0;
};

// The parts are each kind of compute, "exposed" each kind of communication, and "launch gaps", in
// which the device computes nothing and the time is attributed to no communication. They sum to the
// step time. Every step has the same parts in the same order.
struct KernelParts {
  StepParts parts;
  std::vector<CommunicationTime> communication;  // kinds of communication that occur
  std::vector<NamedKernel> kernels;              // of a profile only: the longest first
  std::int64_t steps = 1;  // number of steps of a profile; the parts are their mean
  // The first and the last step of a profile (N of ProfilerStep#N), or -1 if the profile marks no
  // steps.
  std::int64_t first_step = -1, last_step = -1;
};

// Returns the parts of `rank`, which is on the stage of `program` and has entries in the timeline,
// from the begin of the step to `step_time`. The simulator lets messages and collectives of several
// stages begin when all ranks are ready, but NCCL's kernels begin earlier and wait. Idle time right
// before such a receive or collective therefore counts as part of it.
KernelParts predicted_kernel_parts(const Program& program, const Cluster& cluster,
                                   const Timeline& timeline, int rank, SimTime step_time);

// Returns the mean of the steps that the trace marks, from the first to the last with a kernel. If
// it marks none, all work of the device is one step. Because hosts run ahead of devices, the first
// step begins when the host has begun it and the device has done everything launched before. The
// last step ends when the host has ended it and the device has done everything launched before.
// Throws InputError, whose message begins with `path`, if no kernel was launched in any step.
KernelParts profiled_kernel_parts(const ProfilerTrace& trace, const std::string& path);

}  // namespace meshwright::sim
