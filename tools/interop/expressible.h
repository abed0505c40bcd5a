// Checks whether a framework can run a plan, with messages that name keys of the job file.
#pragma once

#include "models/compiler/frameworks/framework.h"
#include "models/job/job.h"

namespace meshwright::interop {

// Throws InputError if the framework cannot run the plan. The message begins with the pointer of
// the key at fault ("/parallelism/schedule: "), without the file, and names the nearest plan that
// the framework can run, if there is one.
void check_expressible(Framework framework, const Plan& plan, const Model& model);

// Adapts a job that leaves choices to the planner to the framework in `training.framework`. A key
// that the job fixes, but that the framework never supports with this value, gets a supported value
// if the limit has one, and the job gets a warning. The model, the degrees and the micro-batch are
// never changed. Throws InputError if it is not known which plans the framework can run, if the
// framework cannot run a captured model, or if it would train all weights where the job trains
// adapters.
void take_ways_of_framework(Job& job);

}  // namespace meshwright::interop
