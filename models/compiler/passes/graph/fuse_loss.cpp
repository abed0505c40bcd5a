#include "models/compiler/passes/graph/fuse_loss.h"

#include <algorithm>
#include <limits>

#include "models/compiler/passes/back_end/fuse.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/core/round_up.h"

namespace meshwright::compiler {

namespace {

// Returns how many rows a block has, such that its logits take about `wanted_bytes`. A block has at
// least 256 rows for fast matmuls, because each block reads the whole table, and reads and writes
// its gradient. The number of blocks is limited to 4096, so that the list of their kernels stays
// short. With blocks of least_loss_block_bytes and logits of 16 bits over a vocabulary of 128,000,
// these cover two million tokens. Elements of a block are counted in 31 bits, which limits
// `wanted_bytes` too.
std::int64_t rows_per_block(std::int64_t wanted_bytes, std::int64_t rows, std::int64_t row_bytes,
                            std::int64_t row_elements) {
  constexpr std::int64_t fewest = 256, multiple = 64, most_blocks = 4096;
  constexpr std::int64_t most_elements = std::numeric_limits<std::int32_t>::max();
  const std::int64_t in_31_bits = most_elements / row_elements / multiple * multiple;
  const std::int64_t wanted = std::min(wanted_bytes / row_bytes, in_31_bits);
  const std::int64_t most = std::max({fewest, wanted, (rows + most_blocks - 1) / most_blocks});
  const std::int64_t blocks = (rows + most - 1) / most;
  const std::int64_t even = (rows + blocks - 1) / blocks;
  return std::min(rows, round_up(even, multiple));
}

// Returns whether the operation is part of a soft cap or of its gradient.
bool is_of_cap(Op op) { return op == Op::scale || op == Op::tanh || op == Op::tanh_grad; }

// Returns, in order, the matmul and the nodes that read the logits, capped or not, or their
// gradients. Returns an empty list if these are not the nodes of one cross-entropy after one
// matmul.
std::vector<int> members(const Graph& graph, int product) {
  std::vector<int> found{product}, wide{graph.output(product)};  // nodes; tensors of logits
  int gradients = 0, losses = 0;
  for (int i = product + 1; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[i];
    if (std::find_first_of(node.inputs.begin(), node.inputs.end(), wide.begin(), wide.end()) ==
        node.inputs.end())
      continue;
    const bool known = is_of_cap(node.op) || node.op == Op::cross_entropy ||
                       node.op == Op::cross_entropy_grad || node.op == Op::linear_grad_input ||
                       node.op == Op::linear_grad_weight || node.op == Op::bias_grad;
    if (!known || graph.unit_of(node) != graph.unit_of(graph.nodes[product])) return {};
    if (node.op == Op::cross_entropy) ++losses;
    if (node.op == Op::cross_entropy_grad) ++gradients;
    if (is_of_cap(node.op) || node.op == Op::cross_entropy_grad) wide.push_back(node.outputs[0]);
    found.push_back(i);
  }
  return losses == 1 && gradients == 1 ? found : std::vector<int>{};
}

// Makes the steps of a soft cap and the loss's gradient overwrite an input that no later step
// reads. They do this for each block, as the unfused gradient did for all logits.
void share_places(Fusion& fusion) {
  for (std::size_t i = 0; i < fusion.steps.size(); ++i) {
    const FusedStep& step = fusion.steps[i];
    if (!is_of_cap(step.op) && step.op != Op::cross_entropy_grad) continue;
    const int made = step.outputs[0];
    const auto free = [&](int id) {
      return fusion.is_internal(id) && fusion.operands[id] == fusion.operands[made] &&
             std::none_of(fusion.steps.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                          fusion.steps.end(), [&](const FusedStep& later) {
                            return std::ranges::find(later.inputs, id) != later.inputs.end();
                          });
    };
    const auto place = std::ranges::find_if(step.inputs, free);
    if (place != step.inputs.end()) replace_internal(fusion, made, *place);
  }
}

// Adds a last output, in which a block's internal operands are stored.
void add_memory(Graph& graph, Fused& made) {
  Fusion& fusion = made.fusion;
  const std::int64_t bytes = fusion.internal_bytes(fusion.block_rows);
  const TensorType type{Shape{(bytes + 3) / 4}, Dtype::f32};
  const int place = fusion.inputs + fusion.outputs;
  fusion.operands.insert(fusion.operands.begin() + place, type);
  fusion.cut.insert(fusion.cut.begin() + place, 0);
  for (FusedStep& step : fusion.steps) {
    for (int& id : step.inputs) id += id >= place ? 1 : 0;
    for (int& id : step.outputs) id += id >= place ? 1 : 0;
  }
  TensorIds outputs;
  for (int i = 0; i < fusion.outputs; ++i) outputs.push_back(made.node.outputs[i]);
  outputs.push_back(graph.add_tensor(type, Role::activation));
  for (int i = fusion.outputs; i < made.node.outputs.size(); ++i)
    outputs.push_back(made.node.outputs[i]);
  made.node.outputs = outputs;
  ++fusion.outputs;
}

}  // namespace

LossBlocks loss_blocks(const Graph& graph) {
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Fusion* fusion = graph.nodes[i].attributes.fusion.get();
    if (fusion == nullptr || fusion->loop != Fusion::Loop::long_blocks) continue;
    const TensorType& logits = fusion->operands[fusion->steps.front().outputs[0]];
    return {i, fusion->rows, fusion->block_rows, logits.bytes() / logits.shape[0],
            fusion->internal_bytes(fusion->block_rows) / fusion->block_rows};
  }
  return {};
}

Graph fuse_loss(Graph graph, const Plan& plan) {
  const std::int64_t given = plan.training.loss_block_bytes;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& product = graph.nodes[i];
    if (product.op != Op::linear || product.phase != Phase::forward) continue;
    const std::vector<int> chosen = members(graph, i);
    if (chosen.empty()) continue;
    std::vector<const Node*> nodes;
    for (int index : chosen) nodes.push_back(&graph.nodes[index]);
    std::vector<int> uses = count_uses(graph);
    const int logits = graph.output(i);
    int gradient = -1;
    for (const Node* node : nodes)
      if (node->op == Op::cross_entropy_grad) gradient = node->outputs[0];
    const int aliased = graph.tensor(gradient).alias_of;  // the logits that the loss reads
    if (aliased >= 0) --uses[aliased];
    std::optional<Fused> made = fuse(graph, nodes, uses);
    if (!made) continue;
    const auto operand = [&](int step, int output) {
      return made->fusion.steps[step].outputs[output];
    };
    const auto grad_step = static_cast<int>(
        std::ranges::find_if(nodes,
                             [](const Node* node) { return node->op == Op::cross_entropy_grad; }) -
        nodes.begin());
    const int place = chosen[grad_step];
    // If ranks hold shares of the rows, recomputation gathers the input of the head again, which is
    // too late for this node.
    if (std::ranges::any_of(made->node.inputs,
                            [&](int id) { return graph.tensor(id).producer >= place; }))
      continue;
    const int inside = operand(0, 0), gradient_inside = operand(grad_step, 0);
    if (!made->fusion.is_internal(inside) || !made->fusion.is_internal(gradient_inside)) continue;
    share_places(made->fusion);
    const TensorType& type = graph.tensor(logits).type;
    const std::int64_t rows = std::max<std::int64_t>(1, type.shape[0]);
    made->fusion.block_rows =
        rows_per_block(given > 0 ? given : least_loss_block_bytes, type.shape[0],
                       type.bytes() / rows, type.shape.elements() / rows);
    made->fusion.loop = Fusion::Loop::long_blocks;
    made->node.phase = Phase::backward;
    graph.tensors[gradient].alias_of = -1;
    add_memory(graph, *made);
    made->node.attributes.fusion = std::make_shared<const Fusion>(std::move(made->fusion));
    std::vector<Node> kept;
    for (int index = 0; index < static_cast<int>(graph.nodes.size()); ++index) {
      if (index == place) kept.push_back(made->node);
      if (std::ranges::find(chosen, index) == chosen.end()) kept.push_back(graph.nodes[index]);
    }
    graph.nodes = std::move(kept);
    // Again, for the losses of tokens further ahead.
    return fuse_loss(cleaned(std::move(graph)), plan);
  }
  return graph;
}

}  // namespace meshwright::compiler
