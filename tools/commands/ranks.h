// Starts the ranks of a settled run with mpirun, here or on the hosts of --hostfile or SageMaker's
// environment, and supervises them. `train` starts itself as ranks, `launch` the user's script.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/options.h"
#include "tools/session/settle.h"

namespace meshwright::tools {

struct StartedRanks {
  std::string input;                   // what rank 0 finds on its standard input
  double deadline_s = 0;               // Supervision::deadline_s
  bool own_network = false;            // Supervision::own_network, if all ranks are on this host
  std::vector<std::string> variables;  // NAME or NAME=VALUE, for ranks on other hosts
  const char* begin = "";              // where a restarted run begins, in words
  std::function<std::vector<std::string>(int restarts)> command;  // of a rank
};

// Runs the ranks to their end, again after faults as often as `--restarts` says, and returns the
// exit code. Throws InputError if the hosts do not match the plan, or if this build lacks MPI.
int run_ranks(const Options& options, const Run& run, const StartedRanks& ranks);

}  // namespace meshwright::tools
