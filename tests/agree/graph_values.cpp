#include "tests/agree/graph_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "models/program/graph/op_table.h"
#include "tests/agree/random_graph.h"
#include "tests/exec/op_runner.h"

namespace meshwright::tests {

namespace {

// The memory of a graph's tensors. A tensor has its own memory unless it is an alias of another
// one.
class Memory {
 public:
  Memory(const Graph& graph, std::uint64_t seed, int neighbour)
      : graph_(graph), seed_(seed), neighbour_(neighbour) {
    for (int id = 0; id < static_cast<int>(graph.tensors.size()); ++id) {
      tensors_.emplace_back(graph.tensor(id).type);
      root_.push_back(id);
      while (graph.tensor(root_.back()).alias_of >= 0)
        root_.back() = graph.tensor(root_.back()).alias_of;
      if (graph.tensor(id).type.bytes() > graph.tensor(root_.back()).type.bytes())
        throw std::logic_error("a tensor is larger than that whose memory it shares");
      poison(id);
    }
    fill_inputs();
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) fill_parameter(i);
    begin_ = tensors_;
  }

  void* address(int id) { return tensors_[root_[id]].storage.data(); }
  void poison(int id) {
    std::vector<double>& storage = tensors_[id].storage;
    std::memset(static_cast<void*>(storage.data()), 0xFF, storage.size() * sizeof(double));
  }
  // Fills the outputs of a node with NaN before it runs, except for memory that it reads too.
  void poison_outputs(const Node& node) {
    for (const int id : node.outputs) {
      const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](int input) { return root_[input] == root_[id]; });
      if (graph_.tensor(id).role == Role::activation && !reads) poison(root_[id]);
    }
  }
  std::vector<float> values(int id) const {
    OpTensor tensor = tensors_[root_[id]];
    tensor.type = graph_.tensor(id).type;
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      numbers.push_back(static_cast<float>(tensor.get(i)));
    return numbers;
  }
  void check_untouched() const {
    for (std::size_t id = 0; id < tensors_.size(); ++id) {
      const Role role = graph_.tensors[id].role;
      if ((role == Role::input || role == Role::parameter) &&
          std::memcmp(tensors_[id].storage.data(), begin_[id].storage.data(),
                      tensors_[id].storage.size() * sizeof(double)) != 0)
        throw std::logic_error("a node writes into an input or a parameter");
    }
  }

 private:
  // Returns random numbers for one tensor, which do not depend on the tensor's id in the graph.
  Draw draw_of(std::size_t purpose) const { return Draw(seed_ * 1000 + purpose); }

  void fill_inputs() {
    const bool is_span = std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                                     [](const Node& node) { return node.op == Op::span_loss; });
    const auto words = static_cast<int>(graph_.vocabulary);
    fill_integers(graph_.tokens, words, 0);
    fill_integers(graph_.targets, is_span ? graph_.sequence_length : words, 1);
    if (graph_.documents >= 0) fill_documents();
    if (graph_.positions >= 0) fill_integers(graph_.positions, graph_.sequence_length, 2);
  }
  void fill_integers(int id, int end, std::size_t purpose) {
    Draw draw = draw_of(purpose);
    OpTensor& made = tensors_[id];
    for (std::int64_t i = 0; i < made.elements(); ++i) made.set(i, draw.below(end));
  }

  // Divides every sequence into documents of about four tokens.
  void fill_documents() {
    Draw draw = draw_of(2);  // 2 is free, because there are no positions
    OpTensor& made = tensors_[graph_.documents];
    double begin = 0;
    for (std::int64_t i = 0; i < made.elements(); ++i) {
      const std::int64_t place = i % graph_.sequence_length;
      if (place == 0 || draw.one_in(4)) begin = static_cast<double>(place);
      made.set(i, begin);
    }
  }

  // Fills a parameter and its gradient. The gradient is not zero, because operations add to it.
  void fill_parameter(std::size_t index) {
    const Parameter& parameter = graph_.parameters[index];
    const bool ones = parameter.initial == Initial::ones;
    const double spread =
        parameter.shape.rank >= 2 ? 1 / std::sqrt(double(parameter.shape[-1])) : 0.25;
    fill_reals(parameter.tensor, ones ? 1 : 0, spread, 3 + 2 * index);
    fill_reals(parameter.gradient, 0, 0x1p-10, 4 + 2 * index);
    if (neighbour_ > 0) move_last_bits(parameter.tensor, index);
  }
  void fill_reals(int id, double middle, double spread, std::size_t purpose) {
    Draw draw = draw_of(purpose);
    OpTensor& made = tensors_[id];
    for (std::int64_t i = 0; i < made.elements(); ++i)
      made.set(i, middle + spread * draw.between(-2000, 2000) / 2000.0);
  }
  void move_last_bits(int id, std::size_t index) {
    Draw draw = draw_of(100 * static_cast<std::size_t>(neighbour_ + 1) + index);
    OpTensor& made = tensors_[id];
    const double last_bit = graph_.precision == Precision::fp16   ? 0x1p-11
                            : graph_.precision == Precision::bf16 ? 0x1p-8
                                                                  : 0x1p-24;
    for (std::int64_t i = 0; i < made.elements(); ++i)
      made.set(i, made.get(i) * (1 + draw.between(-1, 1) * last_bit));
  }

  const Graph& graph_;
  const std::uint64_t seed_;
  const int neighbour_;
  std::vector<OpTensor> tensors_, begin_;
  std::vector<int> root_;  // whose memory it is
};

void run(const Graph& graph, const Node& node, Memory& memory, Backend& backend) {
  memory.poison_outputs(node);
  const auto bytes = [&](int id) { return graph.tensor(id).type.bytes(); };
  if (info(node.op).communication || node.op == Op::tensor_copy) {
    std::memmove(memory.address(node.outputs[0]), memory.address(node.inputs[0]),
                 static_cast<std::size_t>(bytes(node.inputs[0])));
    return;
  }
  std::vector<TensorType> in_types, out_types;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const int id : node.inputs)
    in_types.push_back(graph.tensor(id).type), in.push_back(memory.address(id));
  for (const int id : node.outputs)
    out_types.push_back(graph.tensor(id).type), out.push_back(memory.address(id));
  const OpCall call{node.op, node.attributes, in_types, out_types};
  OpTensor scratch({Shape{backend.workspace_bytes(call) / 4 + 1}, Dtype::f32});
  std::memset(static_cast<void*>(scratch.storage.data()), 0xFF,
              scratch.storage.size() * sizeof(double));
  OpContext context;
  context.workspace = scratch.storage.data();
  context.first_sequence = 5;
  backend.run(call, {in, out}, context);
}

// Returns the gap between the least chosen and the largest other logit of a row, relative to the
// row's largest logit. The result is the least over all rows.
double closest_choice(const std::vector<float>& logits, const Attributes& a) {
  double closest = std::numeric_limits<double>::infinity();
  if (a.experts_per_token >= a.experts) return closest;
  const auto width = static_cast<std::ptrdiff_t>(a.experts);
  for (auto row = logits.begin(); row != logits.end(); row += width) {
    std::vector<float> sorted(row, row + width);
    if (!std::all_of(row, row + width, [](float x) { return std::isfinite(x); })) continue;
    std::sort(sorted.rbegin(), sorted.rend());
    const double largest = std::max(std::fabs(sorted.front()), std::fabs(sorted.back()));
    const double gap = sorted[a.experts_per_token - 1] - sorted[a.experts_per_token];
    closest = std::min(closest, gap / std::max(largest, 1e-30));
  }
  return closest;
}

}  // namespace

GraphValues values_of(const Graph& graph, std::uint64_t seed, Backend& backend, int neighbour) {
  Memory memory(graph, seed, neighbour);
  GraphValues values;
  for (const Node& node : graph.nodes) {
    run(graph, node, memory, backend);
    if (node.op != Op::route || node.phase != Phase::forward) continue;
    backend.wait();
    values.closest_choice = std::min(
        values.closest_choice, closest_choice(memory.values(node.inputs[0]), node.attributes));
  }
  backend.wait();
  memory.check_untouched();
  std::vector<float> balance;
  for (const Node& node : graph.nodes)
    if (node.op == Op::route && node.phase == Phase::forward && node.attributes.balance > 0)
      for (const float loss : memory.values(node.outputs[2])) balance.push_back(loss);
  std::sort(balance.begin(), balance.end());
  values.losses = memory.values(graph.loss);
  values.losses.insert(values.losses.end(), balance.begin(), balance.end());
  for (const Parameter& parameter : graph.parameters)
    values.sums.push_back(memory.values(parameter.gradient));
  return values;
}

}  // namespace meshwright::tests
