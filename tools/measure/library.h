// Measures, by training, the memory of a rank that no plan counts: libraries, stacks, what MPI
// keeps.
#pragma once

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright {

// Completes a profile of this computer whose other values are known. Trains a small model and
// returns how many bytes more than planned a process alone holds and, with MPI, how many more each
// of two processes holds. Returns a guess inside another mpirun, and also, with a warning, if the
// run fails.
LibraryOverheads measure_library(const Options& options, Machine machine);

}  // namespace meshwright
