// Measures the memory of a rank that no plan counts (libraries, stacks, buffers of MPI), by
// training.
#pragma once

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright::tools {

// Trains a small model on this computer, whose profile `machine` is complete except for the
// overheads. Returns how many bytes more than planned a single process holds, and how many more
// than that each of two processes holds, if those can run. Returns a guess inside another mpirun,
// and also, with a warning, if the single process fails.
LibraryOverheads measure_library(const Options& options, Machine machine);

}  // namespace meshwright::tools
