// Joins the kernels of a recorded step with those that a profiler saw of the same script, so that
// each predicted time can be compared with the measured one.
//
// A profile does not say which recorded launch a kernel is. The same script launches the kernels of
// each kind in the same order, so the n-th recorded kernel of a kind is the n-th profiled one.
// Kinds whose numbers of kernels differ are not joined.
#pragma once

#include <string>
#include <vector>

#include "sim/predict/profiler_trace.h"
#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

struct JoinedKind {
  KernelKind kind = KernelKind::other;
  // Number of kernels in a step. The kernels are joined if the two numbers are equal.
  std::int64_t predicted_runs = 0, measured_runs = 0;
  SimTime predicted = 0, measured = 0;  // time of all of them in a step
};

// The joined kernels of one operation or, for matmuls, of one shape.
struct JoinedKernel {
  std::string name;
  KernelKind kind = KernelKind::other;
  std::int64_t runs = 0;
  SimTime predicted = 0, measured = 0;  // time of all runs in a step
};

struct JoinedKernels {
  std::vector<JoinedKind> kinds;
  std::vector<JoinedKernel> kernels;  // those whose times differ most come first
};

// Returns the joined kernels. `spans` is the list that replay_recording() filled in. Times of the
// profile are means over its steps.
JoinedKernels joined_kernels(const Recording& recording, const std::vector<RecordedSpan>& spans,
                             const ProfilerTrace& profile);

}  // namespace meshwright::sim
