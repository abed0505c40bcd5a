// Writes a plan as a line of text.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"

namespace meshwright::session {

// Returns "ranks 16 = data 2 x tensor 2 x pipeline 4   1f1b   8 micro-batches of 2   zero 1 over 2
// recompute selective" on one line.
std::string plan_text(const Plan& plan);
// Returns a short text of a plan, "p4 t2 d2 mb2 zero1": the degrees of pipeline, tensor and data,
// the micro-batch, and all that differs from the usual. No two plans of a search have the same
// text.
std::string short_plan_text(const Plan& plan);

// Returns the text of FittingSearch::opened: "training.recompute left to the planner",
// "parallelism.offload=optimizer".
std::string opened_text(const std::vector<std::string>& opened);

// Returns one line with the defaults that a job's plan has where the job leaves keys out, or "" if
// the job names its degrees: "pipeline 1, tensor 1, data 64, zero_stage 0, recompute none". Keys
// that make no difference are not named, such as the schedule of one stage. One rank has no
// defaults to tell.
std::string defaults_text(const Job& job, const Plan& plan);

}  // namespace meshwright::session
