// `train JOB`: one rank of the run.
#pragma once

#include "exec/comm/communicator.h"
#include "models/job/job.h"
#include "tools/options.h"
#include "tools/session/choose.h"

namespace meshwright {

// The longest that ranks wait for each other, in seconds: usually, and while one of them may load,
// compile, save or write something for which the others have to wait. --deadline sets both.
struct Deadlines {
  double usual_s = 120, long_s = 600;
};
Deadlines deadlines_of(const Options& options);

int threads_per_rank(const Options& options, int ranks_on_host);

// Alone or with others; returns the exit code.
int train_as_rank(const Options& options, const Job& job, const Chosen& chosen, World& world);

// In a handler, of whatever it handles: says why this rank fails, as the launcher expects it, and
// leaves.
int fail(World& world);

}  // namespace meshwright
