// Writes a plan as a line of text.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"

namespace meshwright::session {

// Returns a line about the plan that begins like "ranks 16 = data 2 x tensor 2 x pipeline 4".
std::string plan_text(const Plan& plan);
// Returns a short text of a plan, such as "p4 t2 d2 mb2 zero1": the degrees of pipeline, tensor and
// data, the micro-batch, and choices that differ from the usual ones.
std::string short_plan_text(const Plan& plan);

// Returns FittingSearch::opened as text, such as "training.recompute left to the planner and
// parallelism.offload=optimizer".
std::string opened_text(const std::vector<std::string>& opened);

// Returns one line with the defaults that a job's plan has where the job leaves keys out: "pipeline
// 1, tensor 1, data 64, zero_stage 0, recompute none". Keys that make no difference are not named,
// such as the schedule of one stage. Returns "" for one rank, and if the job names the data degree
// or the degrees of pipeline and tensor.
std::string defaults_text(const Job& job, const Plan& plan);

}  // namespace meshwright::session
