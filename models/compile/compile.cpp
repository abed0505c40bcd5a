#include "models/compile/compile.h"

#include "models/lower/lower.h"
#include "models/partition/partition.h"
#include "models/passes/recomputed_groups.h"

namespace meshwright {

Compiled compile(const Model& model, Plan plan, const Target& target, const PassObserver& observe) {
  const auto after_passes = [&](const PassObserver& observer) {
    return run_passes(build_graph(model, plan.training), plan, target.device, observer);
  };
  Compiled compiled;
  const bool is_cut = !plan.stage_of_unit.empty();
  // The stages are cut by the graph of a plan without stages.
  const bool twice = !is_cut && groups_follow_stages(plan.training);
  compiled.graph = after_passes(twice ? PassObserver{} : observe);
  if (!is_cut) {
    const UnitCosts costs = target.unit_costs(compiled.graph);
    plan.stage_of_unit = partition(compiled.graph, plan, costs.seconds, costs.bytes);
  }
  if (twice) compiled.graph = after_passes(observe);
  compiled.stages = lower(compiled.graph, plan, target.device);
  compiled.plan = std::move(plan);
#ifndef NDEBUG
  verify(compiled.stages);
#endif
  return compiled;
}

}  // namespace meshwright
