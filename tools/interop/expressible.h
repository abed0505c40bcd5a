// Checks whether a framework can run a plan, in the words of the job file.
#pragma once

#include "models/compiler/frameworks/framework.h"
#include "models/job/job.h"

namespace meshwright {

// Throws InputError "/parallelism/schedule: megatron-lm ...; the nearest plan has ..." if the
// framework cannot run the plan.
void check_expressible(Framework framework, const Plan& plan, const Model& model);

// Changes a job that leaves choices to the planner for the framework of its objective. Keys that
// are decided, but that the framework supports with another value only, get that value. The job
// gets a warning for each.
void take_ways_of_framework(Job& job);

}  // namespace meshwright
