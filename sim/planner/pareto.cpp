#include "sim/planner/pareto.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

bool all_have_prices(const std::vector<RankedPlan>& plans) {
  return std::all_of(plans.begin(), plans.end(), [](const RankedPlan& plan) {
    return plan.prediction.usd_per_million_tokens.has_value();
  });
}

}  // namespace

void mark_pareto(std::vector<RankedPlan>& plans) {
  const bool prices = all_have_prices(plans);
  const auto cost = [&](const RankedPlan& plan) {
    return prices ? *plan.prediction.usd_per_million_tokens
                  : plan.prediction.step_time_s * plan.cluster.ranks();
  };
  for (RankedPlan& plan : plans) {
    const double time = plan.prediction.step_time_s, own = cost(plan);
    plan.pareto = std::none_of(plans.begin(), plans.end(), [&](const RankedPlan& other) {
      const double other_time = other.prediction.step_time_s, other_cost = cost(other);
      return other_time <= time && other_cost <= own && (other_time < time || other_cost < own);
    });
  }
}

}  // namespace meshwright::sim
