// Writes a plan as a line of text.
#pragma once

#include <string>

#include "models/compiler/plan/plan.h"

namespace meshwright::session {

// Returns "ranks 16 = data 2 x tensor 2 x pipeline 4   1f1b   8 micro-batches of 2   zero 1 over 2
// recompute selective" on one line.
std::string plan_text(const Plan& plan);
// Returns a short text of a plan, "p4 t2 d2 mb2 zero1": the degrees of pipeline, tensor and data,
// the micro-batch, and all that differs from the usual. No two plans of a search have the same
// text.
std::string short_plan_text(const Plan& plan);

}  // namespace meshwright::session
