// Measures this computer for the profile of machine `local`.
#pragma once

#include <functional>

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright::tools {

// Is called when a measurement begins. `what` names the measurement, and `share` is about the share
// of the total time that is over.
using MeasureWatch = std::function<void(double share, const char* what)>;

enum class MeasureEffort { quick, thorough };

// Measures the GPUs if there are any and options.cpu is not set (gpu.h). Otherwise measures the
// processor: matmuls of several sizes, memory-bound kernels, attention, kernels that threads share
// (with several cores), collectives between processes and the memory of a rank.
Machine measure_this_computer(const Options& options, MeasureEffort effort,
                              const MeasureWatch& watch = {});

}  // namespace meshwright::tools
