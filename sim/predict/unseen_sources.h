// How far measured steps are from predictions of kinds that no constant was fitted to.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"
#include "models/program/training.h"

namespace meshwright::sim {

// Returns the range of measured by predicted step time of published steps of sources that were not
// fitted, if a job is of their kinds: a framework of PyTorch's, or experts or adapters in
// Megatron-LM and its kin. Nothing for other jobs, whose steps the constants were fitted to.
std::optional<Residuals::Interval> unseen_sources(const Training& training, bool has_experts);

}  // namespace meshwright::sim
