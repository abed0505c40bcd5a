// Where the time of a step goes by kinds of kernels: as a profiler saw it of some framework, and as
// it is predicted, in the same parts.
#pragma once

#include <string>
#include <vector>

#include "sim/predict/profiler_trace.h"
#include "sim/predict/step_parts.h"

namespace meshwright {

struct CommunicationTime {
  KernelKind kind = KernelKind::all_reduce;
  SimTime time = 0;     // under way, whatever else was
  SimTime exposed = 0;  // under way while nothing was computed, and not covered by an earlier one
};

struct NamedKernel {
  std::string name;
  KernelKind kind = KernelKind::other;
  SimTime time = 0;  // of all runs in a step
  std::int64_t runs = 0;
};

// The parts: each kind of compute, "exposed" each kind of communication, and "launch gaps", when
// the device computes nothing and no communication is under way. They sum to the step time, and
// every step has the same in the same order.
struct KernelParts {
  StepParts parts;
  std::vector<CommunicationTime> communication;  // that there is
  std::vector<NamedKernel> kernels;              // of a profile: the longest first
  std::int64_t steps = 1;                        // of a profile: the parts are their mean
  std::int64_t first_step = -1, last_step = -1;  // N of ProfilerStep#N; -1: none is marked
};

// Of a rank of `program`'s stage whose entries are those of `rank`, from the step's begin to
// `step_time`. What the simulator lets begin when all are ready (messages, collectives of several
// stages), NCCL begins before and waits in: the idle time right before it is part of it.
KernelParts predicted_kernel_parts(const Program& program, const Timeline& timeline, int rank,
                                   SimTime step_time);

// The mean of the steps that the profiler was told of; without any, all that the device did is one
// step. A step begins when the host has begun it and the device has done what was launched before,
// and ends where the next one begins: hosts run ahead of devices. InputError, which begins with
// `path`: no kernel lies in any step.
KernelParts profiled_kernel_parts(const ProfilerTrace& trace, const std::string& path);

}  // namespace meshwright
