// Measures this computer: the profile of machine `local`.
#pragma once

#include <string>

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright {

enum class MeasureEffort { quick, thorough };

// The GPUs where there are some and options.cpu is not set (measure_gpu.h), else the processor:
// products of several sizes, a memory-bound kernel, attention; with two or more cores also messages
// and collectives between processes.
Machine measure_this_computer(const Options& options, MeasureEffort effort);

}  // namespace meshwright
