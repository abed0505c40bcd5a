#include "models/compiler/passes/graph/widen_weights.h"

#include <vector>

#include "models/compiler/passes/rewriting.h"
#include "models/core/error.h"
#include "models/program/graph/fusion.h"

namespace meshwright::compiler {

namespace {

bool multiplies_by_weight(Op op) { return op == Op::linear || op == Op::linear_grad_input; }

class Widening {
 public:
  Widening(const Graph& graph, const Lora& lora)
      : old_(graph),
        out_(graph),
        wide_(storage_of(graph.precision)),
        narrow_(base_type(lora, wide_)),
        in_blocks_(graph.tensors.size(), 0),
        elsewhere_(graph.tensors.size(), 0) {}

  Graph run() {
    for (const Node& node : old_.nodes) note(node);
    for (Parameter& parameter : out_.parameters)
      if (is_stored_narrow(parameter.tensor)) narrow(parameter);
    out_.nodes.clear();
    for (const Node& node : old_.nodes) {
      Node own = node;
      for (int& id : own.inputs)
        if (is_stored_narrow(id)) id = widened(node, id);
      append_node(out_, own);
    }
    return std::move(out_);
  }

 private:
  bool is_stored_narrow(int tensor) const {
    return in_blocks_[tensor] != 0 && elsewhere_[tensor] == 0;
  }

  // Notes how a node, or a step of a fused one, uses the tensors that it reads.
  void note(const Node& node) {
    const bool in_block = old_.units[old_.unit_of(node)].is_block;
    const auto note_use = [&](Op op, int input, int tensor) {
      const Tensor& read = old_.tensor(tensor);
      if (read.role != Role::parameter || old_.parameters[read.parameter].trainable) return;
      const bool multiplies = input == 1 && multiplies_by_weight(op);
      (multiplies && in_block ? in_blocks_ : elsewhere_)[tensor] = 1;
    };
    const Fusion* fusion = node.attributes.fusion.get();
    if (fusion == nullptr)
      for (int i = 0; i < node.inputs.size(); ++i) note_use(node.op, i, node.inputs[i]);
    else
      for (const FusedStep& step : fusion->steps)
        for (int i = 0; i < step.inputs.size(); ++i)
          if (step.inputs[i] < node.inputs.size())
            note_use(step.op, i, node.inputs[step.inputs[i]]);
  }

  void narrow(Parameter& parameter) {
    const std::int64_t row = parameter.shape[-1], group = dtype_block(narrow_).elements;
    const bool has_groups = narrow_ != Dtype::nf4 && narrow_ != Dtype::nf4_double;
    if (has_groups && row % group != 0)
      throw InputError(broken("/training/lora/group_size",
                              "the rows of {} have {} elements, which are not whole groups of {}; "
                              "use a divisor, or base_weights 'nf4'",
                              parameter.name, row, group));
    parameter.dtype = out_.tensors[parameter.tensor].type.dtype = narrow_;
  }

  int widened(const Node& reader, int weight) {
    Attributes attributes;
    attributes.storage = wide_;
    return out_.output(
        out_.add(Op::widen_weights, reader.module, {weight}, attributes, reader.phase));
  }

  const Graph& old_;
  Graph out_;
  const Dtype wide_, narrow_;
  // Per tensor: whether it is a frozen parameter that linear layers of blocks multiply by, and
  // whether anything else reads it.
  std::vector<char> in_blocks_, elsewhere_;
};

}  // namespace

Graph widen_weights(Graph graph, const Plan& plan) {
  const std::optional<Lora>& lora = plan.training.lora;
  if (!lora || lora->base_weights == BaseWeights::unquantized) return graph;
  return Widening(graph, *lora).run();
}

}  // namespace meshwright::compiler
