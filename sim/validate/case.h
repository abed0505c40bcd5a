// Turns a published training step into a question to the simulator: its cluster and its resolved
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
  std::string key;       // equal for cases that differ in their clusters alone
  std::string question;  // equal for cases that differ in their plans alone
  std::string per_gpu;   // equal for cases that differ in the number of replicas alone
};

// Returns the name of the machine that the row's job asks for, or the first machine that it allows
// if it names several.
std::string machine_of(const StepRow& row);
StepCase case_of(const StepRow& row, const Machine& machine);

}  // namespace meshwright::sim
