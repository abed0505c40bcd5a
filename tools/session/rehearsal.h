// Answers what a recorded step of a training script takes on a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "sim/rehearsal/replay_recording.h"
#include "tools/session/machines.h"

namespace meshwright::session {

// Says on which cluster a recording is priced.
struct RehearsalRequest {
  std::string machine = {};  // empty: the recording's own
  std::optional<int> count =
      {};                  // hosts; unset: as recorded, or as few as have a GPU for each rank
  double host_factor = 1;  // on the time that the host works
};

// The collectives of one kind that the recorded rank takes part in.
struct CollectiveSum {
  RecordedCollective kind = RecordedCollective::all_reduce;
  std::int64_t count = 0, bytes = 0;  // as NCCL counts them
};

// Says what one of several ranks does in the step: a stage of a pipeline.
struct RehearsedRank {
  int rank = 0;
  ReplayedStep step;
  RecordedMemory memory;
};

struct Rehearsed {
  std::string script, recorded_on;
  Cluster cluster;
  // Recorded ranks, the first of which `step`, launches and collectives are of.
  std::vector<RehearsedRank> ranks;
  bool ranks_meet = true;  // false: their messages do not fit each other (sim/rehearsal/meetings.h)
  ReplayedStep step;
  double step_time_s = 0;  // of the slowest rank
  // FLOPs of the kernels that ran, so with those of recomputation, in the mean of the ranks, and
  // their share of the peak of the precision that most of them have. Causal attention counts whole.
  double model_flops_per_s_per_gpu = 0, mfu = 0;
  std::int64_t launches = 0;
  std::vector<CollectiveSum> collectives;
  RecordedMemory memory;          // of the rank that needs most
  double memory_limit_bytes = 0;  // for PyTorch's allocator
  bool fits = true;
  std::optional<Price> price;  // of one host; none: not known
  std::optional<double> usd_per_hour, usd_per_step;
  std::vector<std::string> notes;  // which data were made, what was refused
};

// Returns what PyTorch's allocator can have of one GPU, in bytes.
double script_memory_bytes(const Cluster& cluster, int ranks);

// Prices the recording and replays it. Throws InputError if the machine is unknown, has no GPUs, or
// its hosts cannot have the recording's ranks in equal numbers.
Rehearsed rehearsed(const Recording& recording, const RehearsalRequest& request,
                    const MachineLoader& load);

}  // namespace meshwright::session
