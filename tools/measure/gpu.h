// Measures this computer's GPUs: the profile of machine `local` where it has some.
#pragma once

#include "hwprofiles/machine.h"
#include "tools/measure/measure.h"
#include "tools/options.h"

namespace meshwright {

// The first GPU by itself, and collectives over all of them; with --ranks over so many processes,
// which share GPUs where there are not enough. What there is no time for is taken from the known
// profile of a machine with such GPUs, else from the defaults: each block's source says so.
Machine measure_this_gpu(const Options& options, MeasureEffort effort, const MeasureWatch& watch);

}  // namespace meshwright
