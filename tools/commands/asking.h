// Turns the options of a command into requests to the session, and prints what the session says.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "tools/options.h"
#include "tools/session/watch.h"

namespace meshwright::tools {

// Returns a watch that prints warnings and notes on standard error. shown_watch() also shows how
// far searches are, on a terminal.
Watch printed_watch();
Watch shown_watch();

// Returns the request for the job called `name`, which is an operand of the command.
JobRequest job_request(const Options& options, const std::string& name);
// Return the request for the job that is the one operand of the command, and read that job. Throw
// InputError if there are more operands or none.
JobRequest job_request(const Options& options);
Job asked_job(const Options& options, const Watch& watch);
// Return the request for the job of a command that searches plans, and read that job: what it
// leaves out is open, and batch and length have usual values.
JobRequest search_request(const Options& options);
Job job_to_search(const Options& options, const Watch& watch);
// Returns the options with the model and the tokens that a search finds, if they ask for the
// largest model of a family (largest_model()).
Options with_largest_model(const Options& options, const Watch& watch);
// Reads the job for a prediction of one plan. Batch and length have usual values.
Job job_to_predict(const Options& options, const Watch& watch);
// Returns a loader of machines, which measures this computer if it has no profile yet.
MachineLoader asked_machines(const Options& options, const Watch& watch);

// Returns the files that a command on a job reads (files_read()).
std::vector<std::string> inputs_of(const Options& options, const Job& job);

}  // namespace meshwright::tools
