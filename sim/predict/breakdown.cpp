#include "sim/predict/breakdown.h"

#include <algorithm>

namespace meshwright::sim {

std::vector<StageBreakdown> breakdown(const Prediction& prediction) {
  std::vector<StageBreakdown> stages;
  for (std::size_t s = 0; s < prediction.stages.size(); ++s) {
    const StageTimes& times = prediction.stages[s];
    StageBreakdown stage;
    const double busy = to_seconds(times.compute_busy).value;
    stage.compute_s = busy;
    stage.launch_s = to_seconds(times.launch).value;
    stage.bubble_s = to_seconds(times.bubble).value;
    double exposed = 0;
    for (std::size_t group = 0; group < stage.exposed_s.size(); ++group)
      exposed += stage.exposed_s[group] = to_seconds(times.exposed_by[group]).value;
    stage.idle_s =
        std::max(0.0, prediction.step_time_s - busy - stage.launch_s - stage.bubble_s - exposed);
    stages.push_back(stage);
  }
  return stages;
}

std::string_view exposed_name(std::size_t group) {
  const auto kind = static_cast<GroupKind>(group);
  return kind == GroupKind::none ? "host copies" : name_of(kind);
}

}  // namespace meshwright::sim
