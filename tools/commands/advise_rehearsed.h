// Runs the command `advise --rehearse -- torchrun train.py`. It runs the training script on
// simulated GPUs, first with one rank and finally on --count hosts, and compares the predicted
// steps.
#pragma once

#include "tools/options.h"

namespace meshwright::tools {

// Do what `advise` does with --rehearse. answer_advise_rehearsed() returns what is printed with
// --json. Throw InputError if --on is missing, the machine is unknown, or the command is not one of
// torchrun or python with a script.
int run_advise_rehearsed(const Options& options);
std::string answer_advise_rehearsed(const Options& options, const Watch& watch);

}  // namespace meshwright::tools
