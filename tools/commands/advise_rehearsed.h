// `advise --rehearse -- torchrun train.py`: climbs from one GPU to several hosts by running the
// training script at each number of ranks on GPUs that are not there.
#pragma once

#include "tools/options.h"

namespace meshwright::tools {

// Do what `advise` does with --rehearse. answer_advised_rehearsed() returns what is printed with
// --json. Throw InputError if the machine or the command cannot be used.
int run_advise_rehearsed(const Options& options);
std::string answer_advise_rehearsed(const Options& options, const Watch& watch);

}  // namespace meshwright::tools
