// Turns the options of a command into requests to the session, and prints the session's messages.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "tools/options.h"
#include "tools/session/watch.h"

namespace meshwright::tools {

// Return a watch that prints warnings and notes on standard error. On a terminal, shown_watch()
// also shows the progress of searches.
Watch printed_watch();
Watch shown_watch();

// Returns the request for the job called `name`: a file, or an operand whose text is in `jobs`. If
// `name` is empty, options such as --model describe the job.
JobRequest job_request(const Options& options, const std::string& name);
// Return the request for the job of the command, and read that job. The job is the command's one
// operand, or described by --model if there is no operand. Throw InputError if neither is there, or
// if there are several operands.
JobRequest job_request(const Options& options);
Job asked_job(const Options& options, const Watch& watch);
// Return the request for the job of a command that searches plans, and read that job. Keys that the
// job leaves out are left to the planner. If it has no batch or no length, it gets a usual one.
JobRequest search_request(const Options& options);
Job job_to_search(const Options& options, const Watch& watch);
// Returns the options with the largest model that a search finds, and its tokens, if they ask for
// the largest model of a family (largest_model()). Otherwise returns them as they are.
Options with_largest_model(const Options& options, const Watch& watch);
// Reads the job for a prediction of one plan. If it has no batch or no length, it gets a usual one.
Job job_to_predict(const Options& options, const Watch& watch);
// Returns a loader of machines. Asked for `local`, it measures this computer if that has no
// profile.
MachineLoader asked_machines(const Options& options, const Watch& watch);

// Returns the files that a command on a job reads (files_read()).
std::vector<std::string> inputs_of(const Options& options, const Job& job);

}  // namespace meshwright::tools
