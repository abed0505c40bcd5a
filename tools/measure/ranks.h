// Measures communication between processes of this computer, by starting some under mpirun.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/launch/mpirun.h"
#include "models/core/fields.h"
#include "tools/options.h"

namespace meshwright::tools {

// Returns how mpirun starts ranks on this computer.
MpirunOptions mpirun_options(int ranks);

struct RankRates {
  double latency_s = 0;                   // seconds of one round of a collective
  double bandwidth_bytes_per_s = 0;       // of one rank in a large all-reduce
  double copy_bandwidth_bytes_per_s = 0;  // the same in all-gathers and reduce-scatters
  bool is_measured = true;                // false: these are fixed guesses
};

// Starts `ranks` processes of this program under mpirun as `calibrate --as-rank` with `more`
// options, and returns what rank 0 wrote. Returns nothing if this build lacks MPI, inside another
// mpirun, and, with a warning, if the ranks fail. Throws StopRequested if the user stops it.
std::optional<Fields> run_measured_ranks(const Options& options, int ranks,
                                         const std::vector<std::string>& more);

// Measures the communication of `ranks` processes. If they cannot run (run_measured_ranks()),
// returns fixed guesses.
RankRates measure_ranks(const Options& options, int ranks);

// Measures as one of those ranks. Rank 0 writes the result to the file options.rank_result.
int run_as_measured_rank(const Options& options);

}  // namespace meshwright::tools
