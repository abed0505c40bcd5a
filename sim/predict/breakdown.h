// Splits the time of a step into its parts, stage by stage.
#pragma once

#include <array>
#include <vector>

#include "sim/predict/predict.h"

namespace meshwright::sim {

// Seconds of a step, as means over the ranks of one stage. All parts sum to the step time.
struct StageBreakdown {
  double compute_s = 0;  // time in which kernels run
  double launch_s = 0;   // the device waits for the host to launch the next kernel
  std::array<double, group_kind_count> exposed_s{};  // by group, as StageTimes::exposed_by
  // Idle time between the first forward of any stage and the last backward of any stage, because
  // the compute of other stages has not produced what this one needs.
  double bubble_s = 0;
  double idle_s = 0;  // idle time before the first forward and after the last backward of any stage
};

std::vector<StageBreakdown> breakdown(const Prediction& prediction);

// Returns "tensor", "pipeline", ..., or "host copies" for GroupKind::none.
std::string_view exposed_name(std::size_t group);

}  // namespace meshwright::sim
