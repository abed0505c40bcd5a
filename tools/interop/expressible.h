// Checks whether a framework can run a plan, with messages that name keys of the job file.
#pragma once

#include "models/compiler/frameworks/framework.h"
#include "models/job/job.h"

namespace meshwright::interop {

// Throws InputError if the framework cannot run the plan: "/parallelism/schedule: megatron-lm ...;
// the nearest plan that it can run has ...". The message begins with the key, without the file.
void check_expressible(Framework framework, const Plan& plan, const Model& model);

// Adapts a job that leaves choices to the planner to the framework of its objective. A key that the
// job fixes, but that the framework supports with another value only, gets that value, and the job
// gets a warning. The model, the degrees and the micro-batch are never changed. Throws InputError
// if the framework runs no plan of the model, or would train all weights where the job trains
// adapters.
void take_ways_of_framework(Job& job);

}  // namespace meshwright::interop
