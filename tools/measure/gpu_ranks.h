// Measures communication among the GPUs of this computer, between processes that mpirun starts.
#pragma once

#include <optional>

#include "tools/options.h"

namespace meshwright::tools {

struct GpuRankRates {
  double latency_s = 0;                   // seconds of a small all-reduce over all ranks
  double bandwidth_bytes_per_s = 0;       // of one rank in a large all-reduce
  double pair_bandwidth_bytes_per_s = 0;  // in groups of two neighbouring ranks
  double copy_bandwidth_bytes_per_s = 0;  // to or from pinned memory, all ranks at once
  double communicator_bytes = 0;          // device memory of a communicator of all ranks
};

// Returns the rates, or nothing if the processes cannot run (run_measured_ranks()).
std::optional<GpuRankRates> measure_gpu_ranks(const Options& options, int ranks);

// Measures as one of those processes. Rank 0 writes the result to options.rank_result.
int run_as_measured_gpu_rank(const Options& options);

}  // namespace meshwright::tools
