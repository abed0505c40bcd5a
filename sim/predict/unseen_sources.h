// Says how far measured steps are from predictions for frameworks and models to which no constant
// was fitted.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"
#include "models/program/training.h"

namespace meshwright::sim {

// Returns the range of measured by predicted step time of published steps to which no constant was
// fitted, if a job is of their kind: a framework of PyTorch's, or experts or adapters in
// Megatron-LM or Megatron Bridge. Returns nothing for other jobs, because the constants were fitted
// to steps like theirs.
std::optional<Residuals::Interval> unseen_sources(const Training& training, bool has_experts);

}  // namespace meshwright::sim
