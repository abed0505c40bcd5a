#include "models/compiler/passes/split/exchange_heads.h"

#include "models/compiler/passes/rewriting.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

class HeadExchanger {
 public:
  HeadExchanger(const Graph& graph, int degree) : old_(graph), degree_(degree) {}

  Graph run() {
    out_ = old_;
    out_.nodes.clear();
    for (const Node& node : old_.nodes) {
      if (node.op == Op::attention)
        exchange(node);
      else
        append_node(out_, node);
    }
    return std::move(out_);
  }

 private:
  // Makes the existing tensor `tensor` output `i` of the last node, with the type of this output.
  void become(int i, int tensor) {
    out_.tensors[tensor].type = out_.tensor(out_.nodes.back().outputs[i]).type;
    make_as(out_, i, tensor);
  }
  int add(Op op, const Node& at, int input, const Attributes& attributes) {
    return out_.output(out_.add(op, at.module, {input}, attributes));
  }

  // Returns attributes that say which columns move together. In q, k or v, or in all three packed
  // head by head, the columns of each rank are contiguous. If q, k and v are packed one after the
  // other, each rank's columns are contiguous in each of the three.
  Attributes moving(const Node& node) const {
    const Attributes& a = node.attributes;
    Attributes result = a;
    result.tensor_degree = result.context_degree = degree_;
    if (a.packing == Packing::concatenated)
      result.segments = {std::int64_t{a.heads} * a.head_dim, std::int64_t{a.kv_heads} * a.head_dim,
                         std::int64_t{a.kv_heads} * a.head_dim};
    return result;
  }

  void exchange(const Node& node) {
    const Attributes parts = moving(node);
    TensorIds inputs;
    const int sent = node.attributes.packing == Packing::separate ? 3 : 1;
    for (int i = 0; i < sent; ++i)
      inputs.push_back(add(Op::columns_to_parts, node, node.inputs[i], parts));
    for (int& id : inputs) id = add(Op::context_exchange, node, id, parts);
    for (int& id : inputs) id = add(Op::parts_to_sequence, node, id, parts);
    for (int i = sent; i < node.inputs.size(); ++i) inputs.push_back(node.inputs[i]);
    if (node.attributes.documents) inputs[inputs.size() - 1] = documents();

    const int attention =
        out_.add(Op::attention, node.module, inputs, of_some_heads(node.attributes));
    become(1, node.outputs[1]);
    Attributes whole = parts;
    whole.segments = {};
    int y = add(Op::sequence_to_parts, node, out_.output(attention), whole);
    y = add(Op::context_exchange, node, y, whole);
    add(Op::parts_to_columns, node, y, whole);
    become(0, node.outputs[0]);
  }

  int documents() {
    if (out_.exchanged_documents < 0) {
      TensorType type = old_.tensor(old_.documents).type;
      type.shape[0] *= degree_;
      out_.exchanged_documents = out_.add_tensor(type, Role::input);
    }
    return out_.exchanged_documents;
  }

  Attributes of_some_heads(Attributes a) const {
    MESHWRIGHT_CHECK(a.heads % degree_ == 0 && a.kv_heads % degree_ == 0,
                     "verify(plan) lets only degrees pass that divide");
    MESHWRIGHT_CHECK(a.relative_buckets == 0, "verify(plan) lets no decoder pass");
    a.heads /= degree_;
    a.kv_heads /= degree_;
    a.head_parts = degree_;
    a.sequence_length *= degree_;
    a.context_degree /= degree_;
    return a;
  }

  const Graph& old_;
  int degree_;
  Graph out_;
};

}  // namespace

Graph exchange_heads(Graph graph, const Plan& plan) {
  if (!plan.parallelism.exchanges_heads()) return graph;
  return HeadExchanger(graph, plan.parallelism.ranks_of_heads()).run();
}

}  // namespace meshwright::compiler
