// Splits the time of a step into its parts, stage by stage.
#pragma once

#include <array>
#include <vector>

#include "sim/predict/predict.h"

namespace meshwright::sim {

// Mean seconds of the ranks of one stage. All parts sum to the step time.
struct StageBreakdown {
  double compute_s = 0;  // kernels at work
  double launch_s = 0;   // waiting for the host to launch the next kernel
  std::array<double, group_kind_count> exposed_s{};  // as StageTimes::exposed_by
  double bubble_s = 0;  // between the first forward and the last backward, a peer not being there
  double idle_s = 0;    // before and after that
};

std::vector<StageBreakdown> breakdown(const Prediction& prediction);

// Returns "tensor", "pipeline", ..., or "host copies" for GroupKind::none.
std::string_view exposed_name(std::size_t group);

}  // namespace meshwright::sim
