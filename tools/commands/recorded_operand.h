// Lets commands on a job take a recorded step of a training script in the job's place. A recording
// is recognized by its contents, not by its name.
#pragma once

#include <string>

#include "tools/options.h"
#include "tools/session/rehearsal.h"

namespace meshwright::tools {

// Returns whether the command has exactly one operand and this operand is a recording.
bool names_recording(const Options& options);

// Reads the recording that is the first operand. Throws InputError if it is damaged.
Recording asked_recording(const Options& options);

// Returns the request for the prediction of a recording, from options of the command such as --on
// and --count for the cluster, --host-factor, --set, --by and --budget.
RehearsalRequest rehearsal_request(const Options& options);

// Throws InputError if the file of --report, --summary, --trace or --write cannot be written.
void check_recorded_outputs(const Options& options);

// Predicts the recorded step, and writes the files of --report and --trace.
Rehearsed priced_recording(const Options& options, const Recording& recording, const Watch& watch);

// Do what `simulate` does with a recording. answer_recorded() returns what is printed with --json.
// Throw InputError for options that only jobs have.
int run_recorded(const Options& options);
std::string answer_recorded(const Options& options, const Watch& watch);

}  // namespace meshwright::tools
