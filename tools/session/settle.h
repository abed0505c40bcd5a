// Decides and checks everything once before a training run starts, and passes the decisions to
// every rank.
#pragma once

#include <functional>
#include <string>

#include "exec/data/loader.h"
#include "models/job/job.h"
#include "tools/session/choose.h"
#include "tools/session/requests.h"

namespace meshwright::session {

struct Run {
  Job job;
  Chosen chosen;
};

// Reads the job and chooses its plan. `check_outputs` gets the job before its data is read, and
// throws InputError if the caller could not write its files. Throws InputError if the job cannot
// run here, for example because its cluster is neither this computer nor the named hosts, or
// because its data files are wrong. Throws NoPlanFits if no plan fits, or if the given one does
// not.
Run settle_run(const JobRequest& wanted, const TrainRequest& how,
               const std::function<void(const Job&)>& check_outputs, const Watch& watch);

// Throws InputError if the job is meant for other computers than this one or the named hosts, or if
// it sets options of mpirun that a job file may not set by itself.
void check_can_run(const Job& job, const JobRequest& wanted, const TrainRequest& how);

LoaderOptions loader_options(const Job& job);

// Return whether the job has data.evaluation, the options of the loader for it, and how many global
// batches are evaluated. Only jobs with data.evaluation may call the last two. evaluation_batches()
// throws InputError if the files have fewer batches than the job asks for, or not even one.
bool evaluates(const Job& job);
LoaderOptions evaluation_options(const Job& job);
std::int64_t evaluation_batches(const Job& job, const Loader& loader);

// Write a run as JSON and read it back. The text has the resolved job, the profile that it was
// planned with and its Programs. All ranks read the same text, so they run the same Programs,
// whatever host they are on.
std::string settled_text(const Run& run);
Run read_settled(const std::string& text);

}  // namespace meshwright::session
