#include "models/lower/boundaries.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/schedule/schedule.h"

namespace meshwright {

namespace {

void note_parameter(Boundaries& found, int parameter, int stage) {
  const auto p = static_cast<std::size_t>(parameter);
  if (found.first_user[p] < 0) found.first_user[p] = stage;
  found.first_user[p] = std::min(found.first_user[p], stage);
  found.last_user[p] = std::max(found.last_user[p], stage);
}

// The body of every node. Where the schedule splits backwards, a node belongs to the weights body
// if only gradients of parameters come of it, on its own stage. (A norm's gradient makes both kinds
// at once, and stays in the backward body.)
std::vector<Body::Kind> bodies_of_nodes(const Graph& graph, const std::vector<int>& stage,
                                        bool splits) {
  std::vector<Body::Kind> body(graph.nodes.size(), Body::Kind::forward);
  std::vector<int> needed_early(graph.tensors.size(), 0), used_late(graph.tensors.size(), -1);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.phase == Phase::forward) continue;
    bool late = splits, used = false;
    for (int id : node.outputs) {
      const auto t = static_cast<std::size_t>(id);
      used = used || graph.tensor(id).role == Role::parameter_gradient || used_late[t] >= 0;
      late = late && !needed_early[t] && (used_late[t] < 0 || used_late[t] == stage[i]);
    }
    late = late && used;
    body[i] = late ? Body::Kind::weights : Body::Kind::backward;
    for (int id : node.inputs) {
      const auto t = static_cast<std::size_t>(id);
      if (!late || (used_late[t] >= 0 && used_late[t] != stage[i])) needed_early[t] = 1;
      if (late) used_late[t] = stage[i];
    }
  }
  return body;
}

void note_use(TensorFlow& flow, Body::Kind user, int stage) {
  const bool in_forward = user == Body::Kind::forward;
  if (flow.made_in_backward()) {
    MESHWRIGHT_CHECK(!in_forward && (stage == flow.maker || stage == flow.maker - 1),
                     "gradients flow to the same or the previous virtual stage");
    if (stage == flow.maker) {
      if (user != flow.made_in) flow.kept = true;
      return;
    }
    flow.crosses_backward = true;
    if (user == Body::Kind::weights) flow.kept_by_previous = true;
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
  std::vector<int> stages;
  for (const Node& node : graph.nodes)
    stages.push_back(plan.stage_of_unit[static_cast<std::size_t>(graph.unit_of(node))]);
  found.body =
      bodies_of_nodes(graph, stages, schedule_info(plan.parallelism.schedule).splits_backwards);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const int stage = stages[i];
    found.nodes[static_cast<std::size_t>(stage)].push_back(static_cast<int>(i));
    for (int id : node.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role == Role::parameter) note_parameter(found, tensor.parameter, stage);
      if (tensor.role == Role::activation)
        note_use(found.tensors[static_cast<std::size_t>(id)], found.body[i], stage);
    }
    for (int id : node.outputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role != Role::activation) continue;
      TensorFlow& flow = found.tensors[static_cast<std::size_t>(id)];
      flow.maker = stage;
      flow.made_in = found.body[i];
    }
  }
  // What takes another's place is kept where that lies, and that one until then.
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    if (graph.tensors[id].alias_of < 0) continue;
    TensorFlow& below = found.tensors[static_cast<std::size_t>(graph.tensors[id].alias_of)];
    const TensorFlow& flow = found.tensors[id];
    below.kept = below.kept || flow.kept || flow.made_in != below.made_in;
  }
  return found;
}

}  // namespace meshwright
