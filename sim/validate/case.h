// Converts a published training step to a question for the simulator: its cluster and its resolved
// plan.
#pragma once

#include <string>

#include "models/job/job.h"
#include "sim/predict/predict.h"
#include "sim/validate/evidence.h"

namespace meshwright::sim {

struct StepCase {
  Job job;
  Cluster cluster;
  Plan plan;
  std::string key;       // equal for cases that differ in their clusters only
  std::string question;  // equal for cases that differ in their plans only
  std::string per_gpu;   // equal for cases that differ in the number of replicas only
};

// Returns the name of the machine that the job of the row names, or the first machine that the job
// allows.
std::string machine_of(const StepRow& row);
StepCase case_of(const StepRow& row, const Machine& machine);

}  // namespace meshwright::sim
