// Searches the best plan at each rung, from one GPU to one host to many hosts, and advises what
// each rung brings and where to stop.
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
  int gpus_per_host = 1;  // that the machine has
  int gpus() const { return hosts * processes_per_host; }

  std::optional<RankedPlan> best;  // none: `reason`
  std::string reason;
  std::optional<ClosestMiss> closest_miss;

  // The fields below describe `best`. `opened` holds what was left to the planner because no plan
  // of the job fits (FittingSearch).
  std::vector<std::string> opened;
  StepParts parts;
  std::vector<GroupLoad> loads;
  std::optional<WholeJob> whole;  // none: the job does not say how long it is
  LargestBatch largest;           // the largest micro-batch, with the same number of micro-batches
  // Tokens/s per GPU of this rung, relative to the machine's first rung that has a plan.
  double efficiency = 1;
  // Tokens/s that each GPU added since the previous rung with a plan brings, relative to the
  // tokens/s per GPU of that rung. 1 if there is no such rung.
  double added_efficiency = 1;
};

struct Ladder {
  std::string machine;
  std::vector<Rung> rungs;          // by GPUs
  std::optional<std::size_t> stop;  // the rung to rent; none: nothing fits
  std::string reason;               // why there, in one sentence

  const Rung* chosen() const { return stop ? &rungs[*stop] : nullptr; }
};

struct LadderOptions {
  SearchOptions search;
  // If the objective is the step time, the advice adds GPUs as long as each added GPU brings at
  // least this share of the tokens/s that each GPU of the previous rung brings.
  double worthwhile = 0.75;
};

// Returns a ladder for each machine of the job. Its rungs are one GPU, one host, and the job's
// counts of hosts. A single count stands for itself and all smaller powers of two. The global batch
// is the job's at each rung.
std::vector<Ladder> ladders(const Job& job, const LadderOptions& options = {});

// Ranks a rung that has a plan, as merit() ranks plans. If the job says how long it is, the start
// of the run counts as it does in the rung's time and dollars.
Merit merit_of(const Objective& objective, const Rung& rung);

// Returns the ladder whose chosen rung has the best plan, or null if nothing fits on any machine.
const Ladder* best_of(const std::vector<Ladder>& ladders, const Objective& objective);

// Returns the cause of most of the loss of efficiency between two rungs with plans, in a sentence
// ("from 16 to 32 GPUs efficiency falls from 91 to 74 %: exposed all-reduce of gradients grows from
// 4 to 18 % of the step, as 2.6 GB per GPU take 52 ms (the slowest link on their way: the network,
// 12.5 GB/s), and only 38 ms of them hide").
std::string what_breaks(const Rung& smaller, const Rung& larger);

}  // namespace meshwright::sim
