// Starting the ranks of a run with Open MPI's mpirun: the command line as data, run without a
// shell, and what is said when a rank fails.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace meshwright {

struct MpirunOptions {
  int ranks = 1;
  int cores = 1;                   // of this computer
  bool is_root = false;            // Open MPI wants to be told
  std::vector<std::string> extra;  // checked words of custom_mpi_options
};

// {"mpirun", "-n", "4", ..., program...}
std::vector<std::string> mpirun_command(const MpirunOptions& options,
                                        std::span<const std::string> program);

// Runs it to its end and returns the exit code of this program (0 done ... 5 stopped). SIGINT and
// SIGTERM are passed on to the ranks as SIGUSR1, which asks them to stop after their step; a second
// one stops them at once. Standard output is the ranks'; standard error too, but mpirun's own words
// about a rank that failed become one line, `rank 1 was killed by signal 9; the others were
// stopped`. RunError when mpirun cannot be started.
int run_mpirun(const std::vector<std::string>& command);

}  // namespace meshwright
