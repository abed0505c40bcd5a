// Runs one rank of a training run (`train JOB`).
#pragma once

#include "exec/comm/communicator.h"
#include "models/job/job.h"
#include "tools/options.h"
#include "tools/session/choose.h"

namespace meshwright {

// The longest time, in seconds, that ranks wait for each other: `usual_s`, or `long_s` while one of
// them may load, compile, save or write something. --deadline sets both.
struct Deadlines {
  double usual_s = 120, long_s = 600;
};
Deadlines deadlines_of(const Options& options);

int threads_per_rank(const Options& options, int ranks_on_host);

// Runs this rank, alone or with others, to the end of the training run. Returns the exit code.
int train_as_rank(const Options& options, const Job& job, const Chosen& chosen, World& world);

// Prints why this rank fails, in the form that the launcher expects, and ends the run on all ranks.
// Called in a handler, whose exception is the reason. Returns the exit code.
int fail(World& world);

}  // namespace meshwright
