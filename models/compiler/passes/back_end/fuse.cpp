#include "models/compiler/passes/back_end/fuse.h"

#include <algorithm>
#include <map>

#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

constexpr std::size_t most_operands = 8;  // inputs, and outputs

struct Roles {
  std::vector<int> inputs, outputs, sums, internal;  // ids of tensors
  std::map<int, char> cut;

  void note_input(int id, bool is_cut) {
    const auto [found, is_new] = cut.try_emplace(id, static_cast<char>(is_cut));
    if (is_new) inputs.push_back(id);
    // A step gets an input either whole or only the rows of a block. If members need the same input
    // in both forms, nothing is fused.
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
    const RowRule& rule = info(node->op).rows;
    MESHWRIGHT_CHECK(bool{rule}, "what is fused works by rows");
    for (int i = 0; i < node->inputs.size(); ++i)
      roles.note_input(node->inputs[i], (rule.inputs >> i & 1U) != 0);
    for (int id : node->outputs) {
      if (graph.tensor(id).role == Role::parameter_gradient) {
        if (roles.cut.try_emplace(id, 0).second) roles.sums.push_back(id);
        continue;
      }
      roles.cut[id] = 1;
      (uses[id] > reads[id] ? roles.outputs : roles.internal).push_back(id);
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
  made.fusion.steps.reserve(members.size());
  for (const Node* node : members) {
    FusedStep step{node->op, node->attributes, {}, {}};
    for (int id : node->inputs) step.inputs.push_back(number.at(id));
    for (int id : node->outputs) step.outputs.push_back(number.at(id));
    made.fusion.steps.push_back(std::move(step));
  }
  made.node.op = Op::fused;
  made.node.phase = members.front()->phase;
  made.node.module = members.front()->module;
  for (int id : roles.inputs) made.node.inputs.push_back(id);
  for (int id : roles.outputs) made.node.outputs.push_back(id);
  for (int id : roles.sums) made.node.outputs.push_back(id);
  return made;
}

void replace_internal(Fusion& fusion, int operand, int by) {
  MESHWRIGHT_CHECK(fusion.is_internal(operand), "only internal operands are dropped");
  fusion.operands.erase(fusion.operands.begin() + operand);
  fusion.cut.erase(fusion.cut.begin() + operand);
  const auto renumber = [&](int& id) {
    if (id == operand) id = by;
    id -= id > operand ? 1 : 0;
  };
  for (FusedStep& step : fusion.steps) {
    for (int& id : step.inputs) renumber(id);
    for (int& id : step.outputs) renumber(id);
  }
}

namespace {

// Rewrites y = matmul; z = y + other such that the matmul adds to `other`. The sum must be the
// second step and the only reader of y, `other` an input of the node, and z an output of it.
// Returns whether the body was rewritten.
bool fold_sum(Fusion& fusion) {
  if (fusion.steps.size() < 2) return false;
  FusedStep &product = fusion.steps[0], &sum = fusion.steps[1];
  const int made = product.outputs[0];
  if (sum.op != Op::add || product.attributes.adds) return false;
  const bool first = sum.inputs[0] == made, second = sum.inputs[1] == made;
  if (first == second) return false;
  const int other = sum.inputs[first ? 1 : 0], result = sum.outputs[0];
  const bool outside = other < fusion.inputs && !fusion.is_internal(result);
  if (!outside) return false;
  for (std::size_t i = 2; i < fusion.steps.size(); ++i)
    for (int id : fusion.steps[i].inputs)
      if (id == made) return false;
  product.attributes.adds = true;
  product.outputs[0] = result;
  fusion.start = other;
  fusion.steps.erase(fusion.steps.begin() + 1);
  replace_internal(fusion, made, result);
  return true;
}

// Makes the matmul write to the memory of one of the node's outputs that has the type of its
// result. The step that makes this output must be the last one that reads the result, or come
// later. Returns whether there is such an output.
bool find_place(Fusion& fusion) {
  const int made = fusion.steps[0].outputs[0];
  std::size_t last = 0;
  for (std::size_t i = 1; i < fusion.steps.size(); ++i)
    for (int id : fusion.steps[i].inputs)
      if (id == made) last = i;
  for (std::size_t i = std::max<std::size_t>(last, 1); i < fusion.steps.size(); ++i)
    for (int id : fusion.steps[i].outputs)
      if (!fusion.is_internal(id) && !fusion.is_sum(id) &&
          fusion.operands[id] == fusion.operands[made]) {
        replace_internal(fusion, made, id);
        return true;
      }
  return false;
}

}  // namespace

bool lead_with_product(Fusion& fusion) {
  fusion.loop = Fusion::Loop::product_first;
  const auto inside = [&] { return fusion.is_internal(fusion.steps[0].outputs[0]); };
  return !inside() || fold_sum(fusion) || find_place(fusion);
}

}  // namespace meshwright::compiler
