// Starts the ranks of a run with Open MPI's mpirun. The command line is a list of words that runs
// without a shell. If a rank fails, a message says which and why.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/launch/hosts.h"

namespace meshwright::exec {

// The settings of a run over several hosts, for the flags that SageMaker's containers give to
// mpirun.
struct RemoteHosts {
  std::vector<RunHost> hosts;          // slots: the processes that run there
  std::string interface;               // network interface; empty: Open MPI's choice
  bool efa = false, rdma = false;      // abilities of the instance's network
  bool model_parallel = false;         // SageMaker's library would be at work
  std::vector<std::string> variables;  // NAME=VALUE, for all ranks
};

struct MpirunOptions {
  int ranks = 1;
  int cores = 1;                      // this computer's
  bool is_root = false;               // then Open MPI needs a flag
  std::vector<std::string> extra;     // checked words of custom_mpi_options
  std::optional<RemoteHosts> remote;  // none: all ranks on this computer
  std::string folder = {};            // for Open MPI's files on this computer; empty: its choice
};

// Returns the command line {"mpirun", "-n", "4", ..., program...}. A parameter or variable that
// `extra` sets is not given a second time.
std::vector<std::string> mpirun_command(const MpirunOptions& options,
                                        std::span<const std::string> program);

// Returns the host of each rank, "" for this computer.
std::vector<std::string> hosts_of_ranks(const MpirunOptions& options);

// Raises the soft limit on open files. Throws InputError if this process may not open as many as
// mpirun needs for the ranks, because mpirun would wait for ever.
void allow_open_files(int ranks);

struct Supervision {
  std::string input;               // the file that rank 0 finds on its standard input, on whatever
                                   // host it is; empty: nothing
  std::vector<std::string> hosts;  // hosts_of_ranks(); empty: all ranks are here
  // Seconds that mpirun may take to end after a rank has reported that it fails. Without the
  // network, mpirun would wait for its daemons for ever.
  double patience_s = 8;
  // Gives the ranks a network of their own (own_network.h), if the system allows it. All ranks must
  // be on this computer.
  bool own_network = false;
  // The longest time in seconds without progress while the ranks start, meet, or leave after the
  // end of the run. It counts anew after each progress, which ranks report in lines on standard
  // error (marks.h). A step may take any time. If it is 0, ranks report no progress, and a request
  // to stop ends them at once.
  double deadline_s = 0;
};

// Runs `command`, an mpirun, to its end and returns the exit code of this program (0 done ... 5
// stopped). Standard output is the ranks'. Standard error is theirs too, except that mpirun's own
// words about a failed rank become one line, `rank 1 was killed by signal 9; the others were
// stopped`.
//
// SIGINT and SIGTERM are passed on to the ranks as SIGUSR1, which asks them to stop after their
// step. If that takes more than 5 s, a line says so. A second request stops them at once, and so
// does the first one before the ranks have met, because there is nothing to save yet. A run that
// was asked to stop ends with exit code 5, or 2 if a rank has met bad input. In all cases, the exit
// code that rank 0 has reported at the end of the run (tell_ended()) comes first.
//
// If all ranks are on this computer, an mpirun that outlives them by more than 5 s is killed.
// Throws RunError if mpirun cannot be started.
int run_mpirun(const std::vector<std::string>& command, const Supervision& supervision = {});

}  // namespace meshwright::exec
