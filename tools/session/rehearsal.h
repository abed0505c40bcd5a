// Predicts what a recorded step of a training script takes on a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/job/job.h"
#include "sim/predict/predict.h"
#include "sim/rehearsal/replay_recording.h"
#include "sim/risk/whole_run.h"
#include "tools/session/machines.h"

namespace meshwright::session {

// Says on which cluster a recorded step is predicted, and in which run it is one of many steps.
struct RehearsalRequest {
  std::string machine = {};  // empty: the recording's own
  std::optional<int> count =
      {};                  // hosts; unset: as recorded, or as few as have a GPU for each rank
  double host_factor = 1;  // factor on the time that the host works
  std::vector<std::string> set = {};   // KEY=VALUE, as read_recorded_job() takes them
  std::string file = "the recording";  // its name in messages
  bool keeps_spans = false;            // whether Rehearsed::spans is filled
};

// Sums up the collectives of one kind on the first recorded rank.
struct CollectiveSum {
  RecordedCollective kind = RecordedCollective::all_reduce;
  std::int64_t count = 0, bytes = 0;  // bytes as NCCL counts them
};

// Says what one of the recorded ranks does in the step. Several ranks are recorded if a pipeline
// has stages.
struct RehearsedRank {
  int rank = 0;
  ReplayedStep step;
  RecordedMemory memory;
};

struct Rehearsed {
  std::string script, recorded_on;
  std::vector<std::string> notes;  // which data were made up, what was refused
  Job job;  // its global_batch x sequence_length are the step's tokens, or samples
  bool has_batch = false, has_tokens = false;
  Cluster cluster;
  // Has the recorded ranks. `step`, `spans`, `launches` and `collectives` are those of the first
  // one.
  std::vector<RehearsedRank> ranks;
  bool ranks_meet = true;  // false: their messages do not fit each other (sim/rehearsal/meetings.h)
  ReplayedStep step;
  std::vector<RecordedSpan> spans;
  // The prediction has only the fields that a recording determines: times, rates, memory, price and
  // goodput. The step time is that of the slowest rank. Model FLOPs do not include recorded
  // recomputation and are a mean over the ranks. Causal attention counts as if it had no mask.
  // Memory is that of the device, with what CUDA and NCCL take.
  Prediction prediction;
  double hfu = 0;  // share of the GPU's peak that all FLOPs take, with those of recomputation
  std::int64_t launches = 0;
  std::vector<CollectiveSum> collectives;
  RecordedMemory memory;  // of the rank that needs most memory
  double checkpoint_bytes = 0;
  std::optional<double> usd_per_step;
  std::optional<WholeRun> run;  // under failures; only set by the first rehearsed() below
};

// Returns what PyTorch's allocator can have of one GPU, in bytes.
double script_memory_bytes(const Cluster& cluster, int ranks);

// Predicts the recorded step: prices its kernels, copies and collectives, and replays them. Throws
// InputError if the machine is unknown, has no GPUs, or its hosts cannot have the recording's ranks
// in equal numbers, or if the job counts tokens but the recording does not.
Rehearsed rehearsed(const Recording& recording, const RehearsalRequest& request,
                    const MachineLoader& load);
// Predicts the recorded step on a cluster with as many ranks as it has. `job` is Rehearsed::job of
// an earlier prediction.
Rehearsed rehearsed(const Recording& recording, const Job& job, const Cluster& cluster,
                    const RehearsalRequest& request);

}  // namespace meshwright::session
