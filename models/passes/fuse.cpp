#include "models/passes/fuse.h"

#include <algorithm>
#include <map>

#include "models/core/error.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr std::size_t most_operands = 8;  // of each kind: what TensorIds holds

struct Roles {
  std::vector<int> inputs, outputs, sums, internal;  // tensors
  std::map<int, char> cut;

  void note_input(int id, bool is_cut) {
    const auto [found, is_new] = cut.try_emplace(id, static_cast<char>(is_cut));
    if (is_new) inputs.push_back(id);
    // One that is needed whole by any step is given whole to all.
    consistent = consistent && (found->second != 0) == is_cut;
  }
  bool consistent = true;
};

Roles roles_of(const Graph& graph, std::span<const Node* const> members,
               const std::vector<int>& uses) {
  Roles roles;
  std::map<int, int> reads;
  for (const Node* node : members)
    for (int id : node->inputs) ++reads[id];
  for (const Node* node : members) {
    const std::optional<RowRule> rule = row_rule(node->op);
    MESHWRIGHT_CHECK(rule.has_value(), "what is fused works by rows");
    for (int i = 0; i < node->inputs.size(); ++i)
      roles.note_input(node->inputs[i], (rule->inputs >> i & 1U) != 0);
    for (int id : node->outputs) {
      if (graph.tensor(id).role == Role::parameter_gradient) {
        if (roles.cut.try_emplace(id, 0).second) roles.sums.push_back(id);
        continue;
      }
      roles.cut[id] = 1;
      (uses[at(id)] > reads[id] ? roles.outputs : roles.internal).push_back(id);
    }
  }
  return roles;
}

}  // namespace

std::optional<Fused> fuse(const Graph& graph, std::span<const Node* const> members,
                          const std::vector<int>& uses) {
  const Roles roles = roles_of(graph, members, uses);
  if (!roles.consistent || roles.inputs.size() > most_operands ||
      roles.outputs.size() + roles.sums.size() > most_operands)
    return std::nullopt;
  Fused made;
  std::map<int, int> number;
  const auto place = [&](const std::vector<int>& tensors) {
    for (int id : tensors) {
      number[id] = static_cast<int>(made.fusion.operands.size());
      made.fusion.operands.push_back(graph.tensor(id).type);
      made.fusion.cut.push_back(roles.cut.at(id));
    }
    return static_cast<int>(tensors.size());
  };
  made.fusion.inputs = place(roles.inputs);
  made.fusion.outputs = place(roles.outputs);
  made.fusion.accumulated = place(roles.sums);
  place(roles.internal);
  for (std::size_t id = 0; id < made.fusion.operands.size(); ++id)
    if (made.fusion.cut[id]) made.fusion.rows = made.fusion.operands[id].shape[0];
  for (const Node* node : members) {
    FusedStep step{node->op, node->attributes, {}, {}};
    for (int id : node->inputs) step.inputs.push_back(number.at(id));
    for (int id : node->outputs) step.outputs.push_back(number.at(id));
    made.fusion.steps.push_back(step);
  }
  made.node.op = Op::fused;
  made.node.phase = members.front()->phase;
  made.node.module = members.front()->module;
  for (int id : roles.inputs) made.node.inputs.push_back(id);
  for (int id : roles.outputs) made.node.outputs.push_back(id);
  for (int id : roles.sums) made.node.outputs.push_back(id);
  return made;
}

}  // namespace meshwright
