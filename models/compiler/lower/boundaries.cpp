#include "models/compiler/lower/boundaries.h"

#include <algorithm>

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

void note_parameter(Boundaries& found, int parameter, int stage) {
  std::vector<int>& users = found.users[parameter];
  const auto place = std::ranges::lower_bound(users, stage);
  if (place == users.end() || *place != stage) users.insert(place, stage);
}

// Returns the body of every node. If the schedule splits backwards, a node after the forward
// belongs to the weights body if its results lead only to gradients of parameters on its own
// virtual stage. (The node of a norm's gradient makes gradients of both its input and its weight,
// so it stays in the backward body.)
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

void note_node(Boundaries& found, const Graph& graph, int index, int stage) {
  const Node& node = graph.nodes[index];
  const Body::Kind body = found.body[index];
  found.nodes[stage].push_back(index);
  for (int id : node.inputs) {
    const Tensor& tensor = graph.tensor(id);
    if (is_weight(tensor)) note_parameter(found, tensor.parameter, stage);
    if (tensor.role == Role::activation) note_use(found.tensors[id], body, stage);
  }
  for (int id : node.outputs) {
    if (graph.tensor(id).role != Role::activation) continue;
    TensorFlow& flow = found.tensors[id];
    flow.maker = stage;
    flow.made_in = body;
  }
  if (node.op == Op::tensor_reduce || node.op == Op::tensor_maximum)
    found.reduced_into[node.inputs[0]] = node.outputs[0];
}

// Keeps tensors whose memory another tensor takes over. If the later tensor is kept, or if a later
// body makes it, the earlier one is kept too, because both are in the same memory.
void keep_replaced(const Graph& graph, Boundaries& found) {
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    if (graph.tensors[id].alias_of < 0) continue;
    TensorFlow& below = found.tensors[graph.tensors[id].alias_of];
    const TensorFlow& flow = found.tensors[id];
    below.kept = below.kept || flow.kept || flow.made_in != below.made_in;
  }
}

// Keeps the inputs of tensor_copy nodes whose outputs are kept, because these are views.
void keep_viewed(const Graph& graph, Boundaries& found) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->op != Op::tensor_copy) continue;
    const TensorFlow& view = found.tensors[node->outputs[0]];
    if (!view.kept) continue;
    TensorFlow& base = found.tensors[node->inputs[0]];
    (base.maker == view.maker ? base.kept : base.kept_by_next) = true;
  }
}

}  // namespace

Boundaries find_boundaries(const Graph& graph, const Plan& plan) {
  MESHWRIGHT_CHECK(plan.stage_of_unit.size() == graph.units.size(), "the plan is partitioned");
  for (std::size_t u = 0; u + 1 < graph.units.size(); ++u)
    MESHWRIGHT_CHECK(
        !graph.units[u].predicts_ahead || plan.stage_of_unit[u] == plan.stage_of_unit.back(),
        "multi-token prediction is on the stage of the head");
  Boundaries found;
  found.tensors.resize(graph.tensors.size());
  found.nodes.resize(plan.virtual_stage_count());
  found.users.resize(graph.parameters.size());
  found.reduced_into.assign(graph.tensors.size(), -1);
  std::vector<int> stages;
  for (const Node& node : graph.nodes) stages.push_back(plan.stage_of_unit[graph.unit_of(node)]);
  found.body =
      bodies_of_nodes(graph, stages, schedule_info(plan.parallelism.schedule).splits_backwards);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    note_node(found, graph, static_cast<int>(i), stages[i]);
  keep_replaced(graph, found);
  keep_viewed(graph, found);
  return found;
}

std::vector<int> units_in_order(const Graph& graph, const Boundaries& boundaries, int virtual_stage,
                                Body::Kind body) {
  std::vector<int> units;
  for (int index : boundaries.nodes[virtual_stage]) {
    const auto node = static_cast<std::size_t>(index);
    if (boundaries.body[node] != body) continue;
    const int unit = graph.unit_of(graph.nodes[node]);
    if (units.empty() || units.back() != unit) units.push_back(unit);
  }
  return units;
}

}  // namespace meshwright::compiler
