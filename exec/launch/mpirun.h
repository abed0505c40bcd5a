// Starting the ranks of a run with Open MPI's mpirun: the command line as data, run without a
// shell, and what is said when a rank fails.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/launch/hosts.h"

namespace meshwright {

// A run over several hosts: the flags of SageMaker's containers.
struct RemoteHosts {
  std::vector<RunHost> hosts;          // slots: the processes that run there
  std::string interface;               // of the network; empty: Open MPI's choice
  bool efa = false, rdma = false;      // what the instance's network can do
  bool model_parallel = false;         // SageMaker's library would be at work
  std::vector<std::string> variables;  // NAME=VALUE, for all ranks
};

struct MpirunOptions {
  int ranks = 1;
  int cores = 1;                      // of this computer
  bool is_root = false;               // Open MPI wants to be told
  std::vector<std::string> extra;     // checked words of custom_mpi_options
  std::optional<RemoteHosts> remote;  // none: all ranks on this computer
  std::string folder = {};            // for what Open MPI keeps here; empty: its choice
};

// {"mpirun", "-n", "4", ..., program...}. What custom_mpi_options sets replaces a flag of ours.
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
  std::vector<std::string> hosts;  // of each rank, as hosts_of_ranks says; empty: all are here
  // How long mpirun may take to end after a rank has said that it fails: without the network it
  // would wait for its daemons for ever.
  double patience_s = 8;
  bool own_network = false;  // where the system allows it (own_network.h); all ranks are here
  // For ranks that tell how far they are (marks.h): within this time mpirun starts them, and they
  // leave when the run has ended. 0: they tell nothing, and a request to stop ends them at once.
  double deadline_s = 0;
};

// Runs it to its end and returns the exit code of this program (0 done ... 5 stopped). Standard
// output is the ranks'; standard error too, but mpirun's own words about a rank that failed become
// one line, `rank 1 was killed by signal 9; the others were stopped`.
//
// SIGINT and SIGTERM are passed on to the ranks as SIGUSR1, which asks them to stop after their
// step; where that takes long, this is said. A second request stops them at once, and so does the
// first one before the ranks have met, when there is nothing to save. A run that was asked to stop
// ends with 5, whatever mpirun says, unless rank 0 had its last word: then with what that says.
//
// An mpirun that outlives its ranks, all of this computer, by some seconds is ended. RunError when
// mpirun cannot be started.
int run_mpirun(const std::vector<std::string>& command, const Supervision& supervision = {});

}  // namespace meshwright
