// What is decided and checked once before a training run starts, and how every rank learns of it.
#pragma once

#include <string>

#include "exec/data/loader.h"
#include "models/job/job.h"
#include "tools/options.h"
#include "tools/session/choose.h"

namespace meshwright {

struct Run {
  Job job;
  Chosen chosen;
};

// Reads the job of the command line and chooses its plan. Refuses what cannot run: a cluster that
// is not this computer, wrong data files, files that cannot be written (InputError); what does not
// fit (NoPlanFits).
Run settle_run(const Options& options);

LoaderOptions loader_options(const Job& job);

// data.evaluation: whether the job has it; of a job that does, what is read and how many global
// batches of it. InputError where the files have not as many.
bool evaluates(const Job& job);
LoaderOptions evaluation_options(const Job& job);
std::int64_t evaluation_batches(const Job& job, const Loader& loader);

// The settled job and the profile that it was planned with, as every rank reads them: all decide
// alike, on whatever host they are.
std::string settled_text(const Run& run);
struct Settled {
  Job job;
  Machine machine;
};
Settled read_settled(const std::string& text);

}  // namespace meshwright
