// Converts a replayed step to the form of a trace by PyTorch's profiler, so that code for profiles
// can read it.
#pragma once

#include <string>
#include <vector>

#include "sim/predict/profiler_trace.h"
#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

// Returns the name of an event that runs on the device, in the style of a profile: the symbol of a
// kernel, "gemm 4096x1024x1024 bf16" for a matmul, which is recorded without its symbol,
// "ncclDevKernel_AllGather" or "Memcpy HtoD". A kernel without any of these has the name of its
// operation.
std::string profiled_name(const Recording& recording, const RecordedEvent& event);

// Returns the kind of an event that runs on the device, as the name of its kernel would tell it.
KernelKind profiled_kind(const Recording& recording, const RecordedEvent& event);

// Returns the kernels and copies of one step on the device. The step takes `step_time` and is
// marked as step 0. `spans` is the list that replay_recording() filled in.
ProfilerTrace recorded_profile(const Recording& recording, const std::vector<RecordedSpan>& spans,
                               SimTime step_time);

}  // namespace meshwright::sim
