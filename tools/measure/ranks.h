// What processes of this computer reach among themselves: measured by starting some under mpirun.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/launch/mpirun.h"
#include "models/core/fields.h"
#include "tools/options.h"

namespace meshwright {

// How mpirun starts ranks on this computer.
MpirunOptions mpirun_options(int ranks);

struct RankRates {
  double latency_s = 0;                   // of one round of a collective
  double bandwidth_bytes_per_s = 0;       // of one rank in a large all-reduce
  double copy_bandwidth_bytes_per_s = 0;  // and in an all-gather and a reduce-scatter
};

// Starts `ranks` of this program under mpirun as `calibrate --as-rank` with `more` options, and
// gives back what rank 0 wrote. None without MPI in this build, inside another mpirun, and, with a
// warning, where they fail.
std::optional<Fields> run_measured_ranks(const Options& options, int ranks,
                                         const std::vector<std::string>& more);

// Without MPI in this build: one process only, copies at the rate of memory.
RankRates measure_ranks(const Options& options, int ranks);

// The other side: this process is one of those ranks. Rank 0 writes the result to the file
// options.rank_result.
int run_as_measured_rank(const Options& options);

}  // namespace meshwright
