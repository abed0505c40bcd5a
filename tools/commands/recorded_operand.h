// Commands on a job take a recorded step of a training script in its place, where that has a
// meaning. A recording is told by what it holds, not by its name.
#pragma once

#include <string>

#include "tools/options.h"
#include "tools/session/rehearsal.h"

namespace meshwright::tools {

// Returns whether the one operand of the command is a recording.
bool names_recording(const Options& options);

// Reads the recording that is the one operand. Throws InputError if it is damaged.
Recording asked_recording(const Options& options);

// Returns on which cluster, and in which run, the recording is priced: --on and --count of
// `rehearse`, and --set, --by and --budget.
RehearsalRequest rehearsal_request(const Options& options);

// Checks that --report, --trace and --write can be written.
void check_recorded_outputs(const Options& options);

// Prices the recording, and writes the files of --report and --trace.
Rehearsed priced_recording(const Options& options, const Recording& recording, const Watch& watch);

// Do what `simulate` does with a recording. answer_recorded() returns what is printed with --json.
int run_recorded(const Options& options);
std::string answer_recorded(const Options& options, const Watch& watch);

}  // namespace meshwright::tools
