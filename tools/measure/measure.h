// Measures this computer for the profile of machine `local`.
#pragma once

#include <functional>
#include <string>

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright {

// A function that is called when a measurement begins, with its name and the share of the total
// time, about, that is over by then.
using MeasureWatch = std::function<void(double share, const char* what)>;

enum class MeasureEffort { quick, thorough };

// Measures the GPUs if there are any and options.cpu is not set (gpu.h). Otherwise measures the
// processor: products of several sizes, a memory-bound kernel, attention; with two or more cores
// also messages and collectives between processes.
Machine measure_this_computer(const Options& options, MeasureEffort effort,
                              const MeasureWatch& watch = {});

}  // namespace meshwright
