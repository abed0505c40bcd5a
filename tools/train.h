// `train JOB`: the launcher, and one rank of the run.
#pragma once

#include "models/job/job.h"
#include "tools/choose.h"
#include "tools/options.h"

namespace meshwright {

// One rank, inside mpirun or alone. Returns the exit code.
int train_as_rank(const Options& options, const Job& job, const Chosen& chosen);

}  // namespace meshwright
