// From one GPU to one host to many: the best plan at each rung, what it brings, and where to stop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/advise/group_loads.h"
#include "sim/framework/memory_fit.h"
#include "sim/planner/objective.h"
#include "sim/planner/search.h"
#include "sim/predict/step_parts.h"

namespace meshwright {

struct Rung {
  std::string machine;
  int hosts = 1, processes_per_host = 1;
  int gpus_per_host = 1;  // that the machine has
  int gpus() const { return hosts * processes_per_host; }

  std::optional<RankedPlan> best;  // none: `reason`
  std::string reason;
  std::optional<ClosestMiss> closest_miss;

  // What follows is of `best`.
  // Keys that the job fixes and that were opened because nothing fits as it says.
  std::vector<std::string> opened;
  StepParts parts;
  std::vector<GroupLoad> loads;
  std::optional<WholeJob> whole;  // none: the job does not say how long it is
  LargestBatch largest;           // micro-batch with as many micro-batches
  // Tokens/s per GPU against the machine's first rung that has a plan.
  double efficiency = 1;
  // Of the GPUs that this rung adds to the last one with a plan: their tokens/s against those of as
  // many GPUs there. 1 where it adds to nothing.
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
  // Where the job is to be done soon: more GPUs pay while those added bring this share of what the
  // others do.
  double worthwhile = 0.75;
};

// For each machine of the job: one GPU, one host, and the job's counts of hosts; where it gives one
// count, the powers of two up to it. The global batch is the job's at each rung.
std::vector<Ladder> ladders(const Job& job, const LadderOptions& options = {});

// Of those that stop somewhere the one whose plan is the best; null: nothing fits.
const Ladder* best_of(const std::vector<Ladder>& ladders, const Objective& objective);

// Of two rungs with plans: the cause that most of the loss of efficiency is due to, in a sentence
// ("from 16 to 32 GPUs efficiency falls from 91 to 74 %: exposed all-reduce of gradients grows from
// 4 to 18 % of the step, as 2.6 GB per GPU take 52 ms (the slowest link on their way: the
// network, 12.5 GB/s), and only 38 ms of them hide").
std::string what_breaks(const Rung& smaller, const Rung& larger);

}  // namespace meshwright
