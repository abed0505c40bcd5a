// Predicts how long it takes to read and decode the samples of a step, which overlaps with the step
// before.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compiler/plan/plan.h"
#include "models/job/job.h"

namespace meshwright::sim {

// The seconds that loading takes for each step if it waits for nothing else. Reading and decoding
// overlap, in processes that prepare the samples of the next step.
struct LoadingTime {
  double read_s = 0;    // time in which a host reads its samples from storage
  double decode_s = 0;  // time in which all workers of a rank together decode its samples
  int workers = 1;      // number of worker processes of each rank

  double step_s() const { return read_s > decode_s ? read_s : decode_s; }
  bool is_bottleneck(double step_time_s) const { return step_s() > step_time_s; }
  // Returns the number of workers per rank with which decoding takes no longer than a step.
  int workers_needed(double step_time_s) const;
};

// Returns the loading time of a plan. Each data-parallel replica loads its own samples, once on
// each host on which it has ranks.
LoadingTime loading_time(const DataLoading& loading, const Plan& plan, const Cluster& cluster);

}  // namespace meshwright::sim
