// Whether a framework can run a plan, in the words of the job file.
#pragma once

#include "models/compiler/frameworks/framework.h"
#include "models/job/job.h"

namespace meshwright {

// InputError "/parallelism/schedule: megatron-lm ...; the nearest plan has ..." where the framework
// cannot run the plan.
void check_expressible(Framework framework, const Plan& plan, const Model& model);

// Of a job that leaves choices, for the framework of its objective: keys that are decided, and that
// the framework has in another way alone, become its way, each with a warning of the job.
void take_ways_of_framework(Job& job);

}  // namespace meshwright
