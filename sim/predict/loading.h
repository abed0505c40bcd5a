// Predicts how long the samples of a step take to be read and decoded, beside the step.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compiler/plan/plan.h"
#include "models/job/job.h"

namespace meshwright::sim {

// The seconds that loading takes for each step where nothing else holds it up. Reading and decoding
// go on at the same time, in processes that prepare the next step's samples.
struct LoadingTime {
  double read_s = 0;    // of a host, from its storage
  double decode_s = 0;  // of a rank, in all its workers
  int workers = 1;      // that each rank has

  double step_s() const { return read_s > decode_s ? read_s : decode_s; }
  bool is_bottleneck(double step_time_s) const { return step_s() > step_time_s; }
  // Returns the workers with which decoding takes no longer than a step.
  int workers_needed(double step_time_s) const;
};

// Each replica loads its own samples, once on each host that it lies on.
LoadingTime loading_time(const DataLoading& loading, const Plan& plan, const Cluster& cluster);

}  // namespace meshwright::sim
