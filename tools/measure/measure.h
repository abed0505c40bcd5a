// Measures this computer: the profile of machine `local`.
#pragma once

#include <functional>
#include <string>

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright {

// What begins to be measured, and about which share of the time is over by then.
using MeasureWatch = std::function<void(double share, const char* what)>;

enum class MeasureEffort { quick, thorough };

// The GPUs where there are some and options.cpu is not set (measure_gpu.h), else the processor:
// products of several sizes, a memory-bound kernel, attention; with two or more cores also messages
// and collectives between processes.
Machine measure_this_computer(const Options& options, MeasureEffort effort,
                              const MeasureWatch& watch = {});

}  // namespace meshwright
