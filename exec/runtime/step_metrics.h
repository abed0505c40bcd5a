// Gathers the numbers of a step's result besides loss and norm.
#pragma once

#include <optional>

#include "exec/runtime/rank_context.h"

namespace meshwright::exec {

// Return what StepResult documents, or none if the Program does not measure it. They read the
// backend's memory after a step.
std::optional<double> mtp_loss(const RankContext& rank);
std::optional<double> expert_load(const RankContext& rank);

}  // namespace meshwright::exec
