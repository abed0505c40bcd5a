#include "models/compiler/compile_forward.h"

#include <utility>

#include "models/compiler/lower/lower.h"

namespace meshwright::compiler {

Compiled compile_forward(const Model& model, Plan plan, const DeviceFacts& device) {
  Compiled compiled;
  Graph& graph = compiled.graph;
  graph = build_graph(model, plan.training);
  for (const Pass& pass : passes_of(plan.training)) {
    if (pass.name == "backward") continue;
    graph = pass.run(std::move(graph), plan, device);
    verify(graph, pass.name);
  }
  // The parameters are frozen only after the passes, because the pass widen_weights would otherwise
  // treat all of them like the weights that add_adapters freezes.
  for (Parameter& parameter : graph.parameters) parameter.trainable = false;
  plan.stage_of_unit.assign(graph.units.size(), 0);
  compiled.stages = lower(graph, plan, device);
  compiled.plan = std::move(plan);
  return compiled;
}

}  // namespace meshwright::compiler
