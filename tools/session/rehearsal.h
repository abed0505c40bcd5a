// Answers what a recorded step of a training script takes on a cluster.
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

// Says on which cluster a recording is priced, and in which run its step is one of many.
struct RehearsalRequest {
  std::string machine = {};  // empty: the recording's own
  std::optional<int> count =
      {};                  // hosts; unset: as recorded, or as few as have a GPU for each rank
  double host_factor = 1;  // on the time that the host works
  std::vector<std::string> set = {};   // KEY=VALUE, as read_recorded_job() takes them
  std::string file = "the recording";  // its name in messages
  bool keeps_spans = false;            // for a timeline
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
  std::vector<std::string> notes;  // which data were made, what was refused
  Job job;  // around the step; global_batch times sequence_length are its tokens, or its samples
  bool has_batch = false, has_tokens = false;
  Cluster cluster;
  // Recorded ranks, the first of which `step`, spans, launches and collectives are of.
  std::vector<RehearsedRank> ranks;
  bool ranks_meet = true;  // false: their messages do not fit each other (sim/rehearsal/meetings.h)
  ReplayedStep step;
  std::vector<RecordedSpan> spans;
  // The fields that a recording has an answer for: times, of the slowest rank, rates, memory, price
  // and goodput. Model FLOPs are without those of recorded recomputation, in the mean of the ranks;
  // causal attention counts whole. Memory is that on the device, with what CUDA and NCCL take.
  Prediction prediction;
  double hfu = 0;  // share of the GPU's peak that all FLOPs take, with those of recomputation
  std::int64_t launches = 0;
  std::vector<CollectiveSum> collectives;
  RecordedMemory memory;  // of the rank that needs most
  double checkpoint_bytes = 0;
  std::optional<double> usd_per_step;
  std::optional<WholeRun> run;  // under failures; of the first of the two functions below
};

// Returns what PyTorch's allocator can have of one GPU, in bytes.
double script_memory_bytes(const Cluster& cluster, int ranks);

// Prices the recording and replays it. Throws InputError if the machine is unknown, has no GPUs, or
// its hosts cannot have the recording's ranks in equal numbers.
Rehearsed rehearsed(const Recording& recording, const RehearsalRequest& request,
                    const MachineLoader& load);
// Does so on a cluster with the recording's ranks. `job` is that of an earlier answer.
Rehearsed rehearsed(const Recording& recording, const Job& job, const Cluster& cluster,
                    const RehearsalRequest& request);

}  // namespace meshwright::session
