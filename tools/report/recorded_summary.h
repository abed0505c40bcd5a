// Writes what a recorded step did, as counts and bytes. The result is small enough to keep as a
// reference for a version of a framework.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/rehearsal/recording.h"

namespace meshwright::tools {

// Returns, among others, counts of kernels with their FLOPs and bytes, by class of work and by
// operation. It also has the memory that is allocated before the step, in each phase and kept for
// the backward pass, the collectives in their order, and how often the host waits. It has no times.
nlohmann::json recorded_summary(const Recording& recording);

}  // namespace meshwright::tools
