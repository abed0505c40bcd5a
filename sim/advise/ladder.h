// Finds the best plan for growing numbers of GPUs of a machine: one GPU, one host, several hosts.
// Each number is a rung of a ladder. Advises what each rung brings and where to stop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/advise/group_loads.h"
#include "sim/framework/memory_fit.h"
#include "sim/planner/objective.h"
#include "sim/planner/search.h"
#include "sim/predict/step_parts.h"

namespace meshwright::sim {

struct Rung {
  std::string machine;
  int hosts = 1, processes_per_host = 1;
  int gpus_per_host = 1;  // GPUs that a host of the machine has
  int gpus() const { return hosts * processes_per_host; }

  std::optional<RankedPlan> best;  // the best plan, or none, and then `reason` says why
  std::string reason;
  std::optional<ClosestMiss> closest_miss;

  // The fields below describe `best` and have no meaning without it. `opened` holds the keys of the
  // job that the search left to the planner because no plan fits without (FittingSearch).
  std::vector<std::string> opened;
  StepParts parts;
  std::vector<GroupLoad> loads;
  std::optional<WholeJob> whole;  // the whole job, or none if the job does not say how long it is
  LargestBatch largest;  // the largest micro-batch that fits, with the same number of micro-batches
  // Tokens/s per GPU of this rung, relative to those of the machine's first rung whose plan keeps
  // the optimizer states on the GPUs, or of the first rung with a plan if all plans offload them.
  double efficiency = 1;
  // Tokens/s that each GPU added since the previous rung with a plan brings, relative to the
  // tokens/s per GPU of that rung. It stays 1 if there is no such rung, or if the plan of that rung
  // offloads the optimizer states.
  double added_efficiency = 1;
};

struct Ladder {
  std::string machine;
  std::vector<Rung> rungs;          // the rungs in ascending order of GPUs
  std::optional<std::size_t> stop;  // index of the rung to rent; none: no rung has a plan
  std::string reason;               // why this rung is chosen, or why none is, in one sentence

  const Rung* chosen() const { return stop ? &rungs[*stop] : nullptr; }
};

struct LadderOptions {
  SearchOptions search;
  // If the objective is the step time, the advice stops before the first faster rung whose
  // `added_efficiency` is below this value.
  double worthwhile = 0.75;
};

// Returns a ladder for each machine of the job. Its rungs are one GPU, one host, and the job's
// counts of hosts. A single count stands for itself and all smaller powers of two. All rungs have
// the job's global batch.
std::vector<Ladder> ladders(const Job& job, const LadderOptions& options = {});

// Returns the merit of a rung that has a plan.
Merit merit_of(const Job& job, const Rung& rung);

// Returns the ladder whose chosen rung has the best merit, or null if no ladder has a chosen rung.
const Ladder* best_of(const std::vector<Ladder>& ladders, const Job& job);

// Returns a sentence on how efficiency changes between two rungs with plans. If the percentages
// differ and some part of the step has a larger share on the larger rung, the sentence names the
// part whose share grows most ("from 16 to 32 GPUs efficiency falls from 91 to 74 %: exposed
// all-reduce of gradients grows from 4.0 to 18 % of the step, as 2.6 GB per GPU take 52 ms (the
// slowest link on their way: the network, 12.5 GB/s), and only 38 ms of them hide").
std::string what_breaks(const Rung& smaller, const Rung& larger);

}  // namespace meshwright::sim
