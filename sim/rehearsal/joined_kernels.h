// Joins the kernels of a recorded step with those that a profiler saw of the same script, so that
// each predicted time stands next to the measured one.
//
// A profile does not say which recorded launch a kernel is. The same script launches the kernels of
// each kind in the same order, so the n-th of a kind is the n-th on the other side. Kinds with
// another number of kernels on the other side are not joined.
#pragma once

#include <string>
#include <vector>

#include "sim/predict/profiler_trace.h"
#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

struct JoinedKind {
  KernelKind kind = KernelKind::other;
  std::int64_t predicted_runs = 0, measured_runs = 0;  // in a step; joined where they are equal
  SimTime predicted = 0, measured = 0;                 // of all of them
};

// The joined kernels of one operation, for matmuls of one shape.
struct JoinedKernel {
  std::string name;
  KernelKind kind = KernelKind::other;
  std::int64_t runs = 0;
  SimTime predicted = 0, measured = 0;  // of all runs in a step
};

struct JoinedKernels {
  std::vector<JoinedKind> kinds;
  std::vector<JoinedKernel> kernels;  // those that differ most in time come first
};

// `spans` is what replay_recording() filled in. Times of the profile are the mean of its steps.
JoinedKernels joined_kernels(const Recording& recording, const std::vector<RecordedSpan>& spans,
                             const ProfilerTrace& profile);

}  // namespace meshwright::sim
