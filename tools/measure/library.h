// What a rank holds that no plan counts: libraries, stacks, what MPI keeps. Measured by training.
#pragma once

#include "hwprofiles/machine.h"
#include "tools/options.h"

namespace meshwright {

// For a profile of this computer whose other numbers are known: how much more processes that train
// a small model hold than is planned; one alone, and, where there is MPI, what each of two holds
// beyond that. A guess inside another mpirun and, with a warning, where the run fails.
LibraryOverheads measure_library(const Options& options, Machine machine);

}  // namespace meshwright
