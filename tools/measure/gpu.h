// Measures this computer's GPUs for the profile of machine `local`.
#pragma once

#include "hwprofiles/machine.h"
#include "tools/measure/measure.h"
#include "tools/options.h"

namespace meshwright::tools {

// Measures the first GPU by itself. If there are several ranks (--ranks, or one for each GPU),
// measures collectives over them. If there are more ranks than GPUs, they share GPUs. Values for
// which there is no time are taken from the known profile of a machine with such GPUs, or else from
// defaults. The source of each block of the profile tells which.
Machine measure_this_gpu(const Options& options, MeasureEffort effort, const MeasureWatch& watch);

}  // namespace meshwright::tools
