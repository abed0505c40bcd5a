#include "models/compiler/passes/split/ring_attention.h"

#include "models/compiler/passes/rewriting.h"

namespace meshwright::compiler {

namespace {

class RingWriter {
 public:
  RingWriter(const Graph& graph, const Parallelism& p)
      : old_(graph),
        gathers_(p.context_exchange == ContextExchange::all_gather || p.context_of_pytorch),
        of_pytorch_(p.context_of_pytorch) {}

  Graph run() {
    out_ = old_;
    out_.nodes.clear();
    for (const Node& node : old_.nodes) {
      if (node.op == Op::attention)
        forward(node);
      else if (node.op == Op::attention_grad)
        backward(node);
      else
        append_node(out_, node);
    }
    return std::move(out_);
  }

 private:
  static bool is_packed(const Node& node) { return node.attributes.packing != Packing::separate; }

  // Adds a node that belongs to the module of `at`, and returns its first output.
  int add(Op op, const Node& at, TensorIds inputs, int ring_step = 0) {
    Attributes attributes = at.attributes;
    attributes.ring_step = ring_step;
    attributes.context_of_pytorch = of_pytorch_;
    if (of_pytorch_) attributes.made = old_.tensor(at.inputs[0]).type.dtype;
    return out_.output(out_.add(op, at.module, inputs, attributes, at.phase));
  }
  int second_output() const { return out_.nodes.back().outputs[1]; }

  static TensorIds with_documents(const Node& node, TensorIds inputs) {
    if (node.attributes.documents) inputs.push_back(node.inputs[node.inputs.size() - 1]);
    return inputs;
  }
  static TensorIds with_sinks(const Node& node, TensorIds inputs) {
    const int last = node.inputs.size() - (node.attributes.documents ? 2 : 1);
    if (node.attributes.sinks) inputs.push_back(node.inputs[last]);
    return inputs;
  }

  int pack(const Node& node) {
    if (is_packed(node)) return add(Op::context_pack, node, {node.inputs[0]});
    return add(Op::context_pack, node, {node.inputs[1], node.inputs[2]});
  }

  // Writes the forward. In a ring, each step first sends the keys and values that the next one
  // needs, so that the transfer overlaps with the attention of the step.
  void forward(const Node& node) {
    int kv = pack(node), y = -1, saved = -1;
    if (gathers_) {
      kv = add(Op::context_gather, node, {kv});
      add(Op::context_attention, node, with_documents(node, with_sinks(node, {node.inputs[0], kv})),
          -1);
    }
    const int steps = gathers_ ? 0 : node.attributes.context_degree;
    for (int step = 0; step < steps; ++step) {
      const int next = step + 1 < steps ? add(Op::context_shift, node, {kv}) : -1;
      TensorIds inputs{node.inputs[0], kv};
      if (step == 0) inputs = with_sinks(node, inputs);
      if (step > 0) inputs.push_back(y), inputs.push_back(saved);
      y = add(Op::context_attention, node, with_documents(node, inputs), step);
      saved = second_output();
      kv = next;
    }
    for (int i = 0; i < 2; ++i) make_as(out_, i, node.outputs[i]);
  }

  void backward(const Node& node) {
    const int first = is_packed(node) ? 1 : 3;  // y, saved, dy
    const TensorIds results{node.inputs[first], node.inputs[first + 1], node.inputs[first + 2]};
    int dq = -1;
    const int dkv = of_pytorch_ ? backward_of_pytorch(node, results, dq)
                    : gathers_  ? backward_of_all(node, results, dq)
                                : backward_ring(node, results, dq);
    if (is_packed(node)) {
      add(Op::context_unpack, node, {dq, dkv});
      make_as(out_, 0, node.outputs[0]);
    } else {
      add(Op::context_unpack, node, {dkv});
      for (int i = 0; i < 2; ++i) make_as(out_, i, node.outputs[i + 1]);
    }
  }

  int gradient(const Node& node, int kv, const TensorIds& results, int step, bool is_last, int& dq,
               int sum = -1) {
    TensorIds inputs{node.inputs[0], kv};
    for (int id : results) inputs.push_back(id);
    for (int id : {dq, sum})
      if (id >= 0) inputs.push_back(id);
    if (step <= 0) inputs = with_sinks(node, inputs);
    dq = add(Op::context_attention_grad, node, with_documents(node, inputs), step);
    const bool trains_sinks = node.attributes.sinks && node.outputs.size() > 3;
    if (step <= 0 && trains_sinks) out_.nodes.back().outputs.push_back(node.outputs[3]);
    if (is_last && !is_packed(node)) make_as(out_, 0, dq = node.outputs[0]);
    return second_output();
  }

  int backward_of_all(const Node& node, const TensorIds& results, int& dq) {
    const int kv = add(Op::context_gather, node, {pack(node)});
    const int dkv = gradient(node, kv, results, -1, true, dq);
    return add(Op::context_scatter, node, {dkv});
  }

  // Writes the backward as compiled PyTorch runs it. Each step waits for the sums that arrive, and
  // then adds its part to them. Returns the gradient of keys and values.
  int backward_of_pytorch(const Node& node, const TensorIds& results, int& dq) {
    const int steps = node.attributes.context_degree;
    const int kv = add(Op::context_gather, node, {pack(node)});
    int sum = -1;
    for (int step = 0; step < steps; ++step)
      sum = add(Op::context_shift, node,
                {gradient(node, kv, results, step, step + 1 == steps, dq, sum)});
    return sum;
  }

  // Writes the backward in a ring. The sums for a rank's keys and values arrive while this rank
  // computes its part of them. Returns the gradient of this rank's keys and values.
  int backward_ring(const Node& node, const TensorIds& results, int& dq) {
    const int steps = node.attributes.context_degree;
    int kv = pack(node), sum = -1;
    for (int step = 0; step < steps; ++step) {
      const int next = step + 1 < steps ? add(Op::context_shift, node, {kv}) : -1;
      const int arriving = step > 0 ? add(Op::context_shift, node, {sum}) : -1;
      const int part = gradient(node, kv, results, step, step + 1 == steps, dq);
      sum = step > 0 ? add(Op::add, node, {arriving, part}) : part;
      kv = next;
    }
    return add(Op::context_shift, node, {sum});
  }

  const Graph& old_;
  bool gathers_, of_pytorch_;
  Graph out_;
};

}  // namespace

Graph ring_attention(Graph graph, const Plan& plan) {
  if (plan.parallelism.attends_to_whole_sequences()) return graph;
  return RingWriter(graph, plan.parallelism).run();
}

}  // namespace meshwright::compiler
