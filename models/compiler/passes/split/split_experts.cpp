#include "models/compiler/passes/split/split_experts.h"

#include <algorithm>

#include "models/compiler/passes/rewriting.h"
#include "models/program/graph/expert_skew.h"
#include "models/program/graph/experts.h"

namespace meshwright::compiler {

namespace {

class ExpertSplitter {
 public:
  ExpertSplitter(const Graph& whole, const Plan& plan)
      : whole_(whole),
        out_(whole),
        training_(plan.training),
        degree_(plan.parallelism.expert),
        sends_once_(plan.parallelism.expert_dispatch == ExpertDispatch::deduplicated) {}

  Graph run() {
    for (Parameter& parameter : out_.parameters)
      if (parameter.of_experts) cut(parameter);
    out_.nodes.clear();
    exchanged_.assign(whole_.tensors.size(), -1);
    for (const Node& node : whole_.nodes) {
      Node own = node;
      if (is_dropless(node.attributes)) plan_rows(own.attributes);
      if (node.op == Op::combine) own.inputs[0] = exchange(own, node.inputs[0]);
      if (node.op == Op::expert_linear && exchanged(node.inputs[0]) >= 0)
        own.inputs[0] = exchanged(node.inputs[0]);
      const bool counted = node.op == Op::expert_linear || node.op == Op::add_expert_bias;
      if (counted && is_dropless(node.attributes)) own.inputs[2] = exchanged_counts(node);
      if (is_dropless(own.attributes)) infer_again(out_, own);  // plan_rows() changed its rows
      append_node(out_, own);
      if (node.op == Op::dispatch) exchanged(node.outputs[0]) = exchange(own, node.outputs[0]);
    }
    return std::move(out_);
  }

 private:
  void cut(Parameter& parameter) {
    parameter.shape[0] /= degree_;
    parameter.is_cut_by_experts = true;
    out_.tensors[parameter.tensor].type.shape = parameter.shape;
  }
  // Sets how many rows the ranks of an expert group exchange in a dropless layer, limited if
  // expert_rank_factor is set, and the expected imbalance of their loads.
  void plan_rows(Attributes& a) {
    const std::int64_t choices =
        std::int64_t{a.micro_batch} * a.sequence_length * a.experts_per_token;
    a.expert_rows = dropless_rows(a.expert_rank_factor, choices, degree_);
    a.expert_parts = degree_;
    if (imbalance_ == 0) imbalance_ = imbalance(a);
    a.expert_imbalance = imbalance_;
  }
  double imbalance(const Attributes& a) const {
    if (training_.expert_skew > 0)
      return fullest_part(a.experts, a.experts_per_token, degree_, training_.expert_skew,
                          training_.seed);
    return std::min<double>(training_.expert_imbalance.value_or(1), degree_);
  }
  int exchanged_counts(const Node& node) {
    int& counts = exchanged(node.inputs[2]);
    if (counts < 0) counts = exchange(node, node.inputs[2]);
    return counts;
  }
  int exchange(const Node& at, int tensor) {
    Attributes attributes = at.attributes;
    attributes.sends_once = sends_once_;
    return out_.output(out_.add(Op::expert_exchange, at.module, {tensor}, attributes));
  }
  int& exchanged(int tensor) { return exchanged_[tensor]; }

  const Graph& whole_;
  Graph out_;
  const Training& training_;
  int degree_;
  bool sends_once_;
  double imbalance_ = 0;        // 0 before it is known; all layers have equal numbers of experts
  std::vector<int> exchanged_;  // dispatched tensor -> result of its all-to-all, or -1
};

}  // namespace

Graph split_experts(Graph graph, const Plan& plan) {
  if (plan.parallelism.expert == 1) return graph;
  return ExpertSplitter(graph, plan).run();
}

}  // namespace meshwright::compiler
