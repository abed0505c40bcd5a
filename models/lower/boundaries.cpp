#include "models/lower/boundaries.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright {

namespace {

void note_parameter(Boundaries& found, int parameter, int stage) {
  const auto p = static_cast<std::size_t>(parameter);
  if (found.first_user[p] < 0) found.first_user[p] = stage;
  found.first_user[p] = std::min(found.first_user[p], stage);
  found.last_user[p] = std::max(found.last_user[p], stage);
}

void note_use(TensorFlow& flow, const Node& user, int stage) {
  const bool in_forward = user.phase == Phase::forward;
  if (flow.made_in_backward) {
    MESHWRIGHT_CHECK(!in_forward && (stage == flow.maker || stage == flow.maker - 1),
                     "gradients flow to the same or the previous virtual stage");
    if (stage != flow.maker) flow.crosses_backward = true;
    return;
  }
  MESHWRIGHT_CHECK(stage == flow.maker || stage == flow.maker + 1,
                   "activations flow to the same or the next virtual stage");
  if (stage == flow.maker) {
    if (!in_forward) flow.kept = true;
    return;
  }
  flow.crosses_forward = true;
  if (!in_forward) flow.kept_by_next = true;
}

}  // namespace

Boundaries find_boundaries(const Graph& graph, const Plan& plan) {
  MESHWRIGHT_CHECK(plan.stage_of_unit.size() == graph.units.size(), "the plan is partitioned");
  Boundaries found;
  found.tensors.resize(graph.tensors.size());
  found.nodes.resize(static_cast<std::size_t>(plan.virtual_stage_count()));
  found.first_user.assign(graph.parameters.size(), -1);
  found.last_user.assign(graph.parameters.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const int stage = plan.stage_of_unit[static_cast<std::size_t>(graph.unit_of(node))];
    found.nodes[static_cast<std::size_t>(stage)].push_back(static_cast<int>(i));
    for (int id : node.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role == Role::parameter) note_parameter(found, tensor.parameter, stage);
      if (tensor.role == Role::activation)
        note_use(found.tensors[static_cast<std::size_t>(id)], node, stage);
    }
    for (int id : node.outputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role != Role::activation) continue;
      TensorFlow& flow = found.tensors[static_cast<std::size_t>(id)];
      flow.maker = stage;
      flow.made_in_backward = node.phase != Phase::forward;
      if (tensor.alias_of >= 0)
        found.tensors[static_cast<std::size_t>(tensor.alias_of)].kept = true;
    }
  }
  return found;
}

}  // namespace meshwright
