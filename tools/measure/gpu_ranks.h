// Measures communication among the GPUs of this computer, with one process for each GPU under
// mpirun.
#pragma once

#include <optional>

#include "tools/options.h"

namespace meshwright {

struct GpuRankRates {
  double latency_s = 0;                   // of an all-reduce of a few bytes over all ranks
  double bandwidth_bytes_per_s = 0;       // that a rank sends in a large one
  double pair_bandwidth_bytes_per_s = 0;  // and in one of the first two ranks
  double copy_bandwidth_bytes_per_s = 0;  // of pinned memory, while all ranks copy
  double communicator_bytes = 0;          // that the world's communicator takes of a GPU
};

// Returns no rates, after a warning, if the processes cannot be started.
std::optional<GpuRankRates> measure_gpu_ranks(const Options& options, int ranks);

// Measures as one of those processes. Rank 0 writes the result to options.rank_result.
int run_as_measured_gpu_rank(const Options& options);

}  // namespace meshwright
