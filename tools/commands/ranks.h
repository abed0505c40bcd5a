// Starts the ranks of a settled run with mpirun, on this host or on those of a hostfile or of
// SageMaker's environment, and supervises them. `train` starts this program as ranks, `launch` the
// user's script.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/options.h"
#include "tools/session/settle.h"

namespace meshwright::tools {

struct StartedRanks {
  std::string input;                   // standard input of rank 0
  double deadline_s = 0;               // Supervision::deadline_s, in seconds
  bool own_network = false;            // wish for Supervision::own_network, if it is possible
  std::vector<std::string> variables;  // NAME or NAME=VALUE, for ranks on other hosts
  const char* begin = "";              // where a restarted run begins, for messages
  std::function<std::vector<std::string>(int restarts)> command;  // words of a rank
};

// Runs the ranks to their end, again after faults as often as `--restarts` allows, and returns the
// exit code. Throws InputError if the hosts do not match the plan, or if this build lacks MPI.
int run_ranks(const Options& options, const Run& run, const StartedRanks& ranks);

}  // namespace meshwright::tools
