// Shows a replayed step as PyTorch's profiler would have shown it, so that whatever reads a profile
// reads a rehearsal.
#pragma once

#include <string>
#include <vector>

#include "sim/predict/profiler_trace.h"
#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

// Returns the name of an event that runs on the device, in the style of a profile's: the symbol of
// a kernel, "gemm 4096x1024x1024 bf16" for a matmul, which is recorded without its symbol,
// "ncclDevKernel_AllGather" or "Memcpy HtoD".
std::string profiled_name(const Recording& recording, const RecordedEvent& event);

// Returns the kind of such an event, as its kernel's name tells it.
KernelKind profiled_kind(const Recording& recording, const RecordedEvent& event);

// Returns what the device did in one step, which takes `step_time` and is marked as a step.
// `spans` is what replay_recording() filled in.
ProfilerTrace recorded_profile(const Recording& recording, const std::vector<RecordedSpan>& spans,
                               SimTime step_time);

}  // namespace meshwright::sim
