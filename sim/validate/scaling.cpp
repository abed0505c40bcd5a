#include "sim/validate/scaling.h"

#include <cmath>
#include <map>

#include "sim/validate/score.h"

namespace meshwright::sim {

namespace {

double efficiency(const ScoredStep& one, const ScoredStep& several, double ScoredStep::*time) {
  return several.sequences / several.*time / (several.ranks * one.sequences / one.*time);
}

}  // namespace

std::vector<ScalingPair> scaling_pairs(std::span<const ScoredStep> steps) {
  std::map<std::string, const ScoredStep*> on_one;
  for (const ScoredStep& step : steps)
    if (step.ranks == 1) on_one.emplace(step.source + step.per_gpu, &step);
  std::vector<ScalingPair> pairs;
  for (const ScoredStep& several : steps) {
    const auto found = on_one.find(several.source + several.per_gpu);
    if (several.ranks != scaled_gpus || found == on_one.end()) continue;
    const ScoredStep& one = *found->second;
    pairs.push_back({several.source, one.id, several.id, several.ranks,
                     efficiency(one, several, &ScoredStep::predicted_step_time_s),
                     efficiency(one, several, &ScoredStep::measured_step_time_s)});
  }
  return pairs;
}

std::vector<ScalingSummary> summarise(std::span<const ScalingPair> pairs) {
  std::vector<ScalingSummary> summaries;
  for (const ScalingPair& pair : pairs) {
    if (summaries.empty() || summaries.back().source != pair.source)
      summaries.push_back({.source = pair.source});
    ScalingSummary& summary = summaries.back();
    ++summary.pairs;
    summary.within += std::abs(pair.difference()) <= scaling_tolerance;
    summary.mean_difference += (pair.difference() - summary.mean_difference) / summary.pairs;
  }
  return summaries;
}

}  // namespace meshwright::sim
