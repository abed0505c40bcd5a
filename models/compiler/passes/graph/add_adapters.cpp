#include "models/compiler/passes/graph/add_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/compiler/passes/graph/head_product.h"
#include "models/compiler/passes/rewriting.h"
#include "models/core/error.h"
#include "models/core/hash.h"

namespace meshwright::compiler {

namespace {

constexpr std::string_view weight_suffix = ".weight";

class Adapting {
 public:
  Adapting(const Graph& graph, const Training& training)
      : old_(graph), training_(training), lora_(*training.lora), out_(graph) {}

  Graph run() {
    for (Parameter& parameter : out_.parameters) parameter.trainable = false;
    train_class_head();
    refuse_tables();
    used_.assign(lora_.target_modules.size(), false);
    out_.nodes.clear();
    becomes_.assign(old_.tensors.size(), -1);
    for (const Node& node : old_.nodes) {
      Node own = node;
      for (int& id : own.inputs)
        if (becomes_[id] >= 0) id = becomes_[id];
      append_node(out_, own);
      if (node.op == Op::linear && is_target(node)) adapt(own);
    }
    refuse_unused();
    return std::move(out_);
  }

 private:
  const Parameter& weight_of(const Node& node) const {
    return old_.parameters[old_.tensor(node.inputs[1]).parameter];
  }

  static std::string module_of(const Parameter& weight) {
    return weight.name.substr(0, weight.name.size() - weight_suffix.size());
  }

  // Rejects models with attention sinks or with tables of relative positions, because attention
  // makes the gradients of these parameters even if they are not trained.
  void refuse_tables() const {
    for (const Node& node : old_.nodes)
      if (node.attributes.sinks)
        throw InputError(
            unsupported("/training/lora", "a model with attention sinks is not supported yet"));
      else if (node.attributes.relative_buckets > 0)
        throw InputError(
            unsupported("/training/lora", "a model with relative positions is not supported yet"));
  }

  // Makes a head that predicts classes trainable as a whole, as peft's `modules_to_save` does,
  // because its weights begin at random.
  void train_class_head() {
    for (const Node& loss : old_.nodes) {
      if (loss.op != Op::cross_entropy || is_over_vocabulary(loss)) continue;
      for (const Node& node : old_.nodes)
        for (int id : node.inputs)
          if (old_.unit_of(node) == old_.unit_of(loss) && old_.tensor(id).parameter >= 0)
            out_.parameters[old_.tensor(id).parameter].trainable = true;
    }
  }

  bool is_target(const Node& node) {
    const Parameter& weight = weight_of(node);
    if (!weight.name.ends_with(weight_suffix)) return false;
    const bool in_block = old_.units[old_.unit_of(node)].is_block;
    const std::string module = module_of(weight);
    bool found = false;
    for (std::size_t i = 0; i < lora_.target_modules.size(); ++i) {
      const std::string& target = lora_.target_modules[i];
      const bool all = target == all_linear && in_block;
      if (!all && !names_module(target, module)) continue;
      used_[i] = found = true;
    }
    if (!found) return false;
    if (!in_block)
      throw InputError(unsupported("/training/lora/target_modules",
                                   "'{}' is in no block of the model, and adapters of an embedding "
                                   "or a head are not supported yet",
                                   module));
    if (weight.part)
      throw InputError(unsupported(
          "/training/lora/target_modules",
          "'{}' is published as a part of '{}', and an adapter of a part is not supported yet",
          module, weight.part->whole));
    return true;
  }

  void refuse_unused() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      throw InputError(broken(fmt::format("/training/lora/target_modules/{}", i),
                              "no linear layer of the model is named '{}'; it has {}",
                              lora_.target_modules[i], list_of(last_names(), "and")));
    }
  }

  // Returns the last parts of the paths of linear layers in blocks, each once.
  std::vector<std::string> last_names() const {
    std::vector<std::string> names;
    for (const Node& node : old_.nodes) {
      if (node.op != Op::linear || !old_.units[old_.unit_of(node)].is_block) continue;
      const std::string module = module_of(weight_of(node));
      const std::string name = module.substr(module.rfind('.') + 1);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return names;
  }

  struct Adapter {
    int first = -1, second = -1;  // tensors of A and B
  };

  int add_parameter(const Parameter& weight, const std::string& name, Shape whole, Initial initial,
                    bool takes_cut, int cut_dim) {
    Parameter made;
    made.name = name;
    made.global_shape = made.padded_shape = made.shape = whole;
    made.dtype = weight.dtype;
    made.initial = initial;
    made.partial_over_tensor = weight.partial_over_tensor;
    if (takes_cut) {
      made.cut = {cut_dim, weight.cut.segments};
      made.is_cut = weight.is_cut;
      if (weight.is_cut) made.shape[cut_dim] /= old_.tensor_degree;
    } else if (weight.is_cut) {
      made.partial_over_tensor = true;
    }
    return out_.add_parameter(std::move(made));
  }

  const Adapter& adapter_of(const Node& node) {
    const auto [found, is_new] = adapters_.try_emplace(node.inputs[1]);
    if (!is_new) return found->second;
    const Parameter weight = weight_of(node);
    const int out_axis = node.attributes.weight_in_out ? 1 : 0;
    const std::int64_t in = weight.global_shape[1 - out_axis], out = weight.global_shape[out_axis];
    const bool by_inputs = weight.cut.dim == 1 - out_axis, by_outputs = weight.cut.dim == out_axis;
    const std::string module = module_of(weight);
    found->second.first = add_parameter(weight, adapter_name(module, false), {lora_.rank, in},
                                        Initial::kaiming_uniform, by_inputs, 1);
    found->second.second = add_parameter(weight, adapter_name(module, true), {out, lora_.rank},
                                         Initial::zeros, by_outputs, 0);
    return found->second;
  }

  int apply(Op op, const Node& beside, TensorIds inputs, const Attributes& attributes) {
    return out_.output(out_.add(op, beside.module, inputs, attributes));
  }

  // Returns whether the input of an adapter is converted to fp32 for its dropout, as in eager runs
  // with peft. Since release 0.12 peft keeps adapters in fp32 (autocast_adapter_dtype), unless
  // master_weights 'none' says that they are in 16 bits, and converts their inputs
  // (peft/tuners/lora/layer.py: _cast_input_dtype). Under autocast their matmuls are in 16 bits all
  // the same, and layers with quantized weights convert nothing (peft/tuners/lora/bnb.py).
  bool converts_input() const {
    return has_adapters_of_peft(training_.framework) && training_.compiler == CompilerLevel::none &&
           storage_of(old_.precision) != Dtype::f32 &&
           training_.master_weights != MasterWeights::none &&
           lora_.base_weights == BaseWeights::unquantized;
  }

  int dropped(const Node& node, const Attributes& plain, int x) {
    const bool in_fp32 = converts_input();
    if (lora_.dropout == 0 && !in_fp32) return x;
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // spreads small seeds over all bits
    Attributes attributes = plain;
    const Parameter& weight = weight_of(node);
    const int in_axis = node.attributes.weight_in_out ? 0 : 1;
    attributes.hidden_share = weight.is_cut && weight.cut.dim == in_axis;
    attributes.dropout = lora_.dropout;
    attributes.drops_in_fp32 = in_fp32;
    attributes.dropout_key = hash_of(module_of(weight) + ".lora_dropout") ^ (training_.seed * odd);
    return apply(Op::dropout, node, {x}, attributes);
  }

  void adapt(const Node& node) {
    const Adapter adapter = adapter_of(node);
    Attributes plain;
    plain.micro_batch = node.attributes.micro_batch;
    plain.sequence_length = node.attributes.sequence_length;
    plain.tensor_degree = old_.tensor_degree;
    plain.context_degree = node.attributes.context_degree;
    plain.sequence_parallel = node.attributes.sequence_parallel;
    const int x = dropped(node, plain, node.inputs[0]);
    int low = apply(Op::linear, node, {x, adapter.first}, plain);
    Attributes scaled = plain;
    scaled.factor = lora_.alpha / lora_.rank;
    // peft and torchtune scale the result of B, even by 1. Otherwise the narrow result of A is
    // scaled, which has only `rank` columns.
    const bool scales_result = is_of_pytorch(training_.framework);
    if (scaled.factor != 1 && !scales_result) low = apply(Op::scale, node, {low}, scaled);
    int change = apply(Op::linear, node, {low, adapter.second}, plain);
    if (scales_result) change = apply(Op::scale, node, {change}, scaled);
    becomes_[node.outputs[0]] = apply(Op::add, node, {node.outputs[0], change}, plain);
  }

  const Graph& old_;
  const Training& training_;
  const Lora& lora_;
  Graph out_;
  std::vector<int> becomes_;
  std::vector<bool> used_;           // per name in target_modules: whether it names a layer
  std::map<int, Adapter> adapters_;  // by the tensor of the layer's weight
};

}  // namespace

Graph add_adapters(Graph graph, const Plan& plan) {
  if (!plan.training.lora) return graph;
  return Adapting(graph, plan.training).run();
}

}  // namespace meshwright::compiler
