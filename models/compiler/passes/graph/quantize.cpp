#include "models/compiler/passes/graph/quantize.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "models/compiler/passes/graph/backward.h"
#include "models/compiler/passes/rewriting.h"
#include "models/compiler/plan/sharding.h"
#include "models/core/hash.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/quantized.h"

namespace meshwright::compiler {

namespace {

// The way in which a recipe scales tensors. `length` is the number of elements along the summed
// dimension that share a scale (a block). 0 means one scale for a tensor.
struct Recipe {
  std::int64_t length = 0;
  bool of_before = false;       // scales come from the largest elements of earlier steps
  bool square_weights = false;  // blocks of weights have as many rows as columns
  bool powers = false;          // scales are rounded to powers of two
  Dtype of_gradients = Dtype::e4m3, of_others = Dtype::e4m3;

  bool has_blocks() const { return length > 0; }
  // Returns whether this is NVFP4. Its blocks have scales in addition to the tensor's scale. Its
  // gradients are rounded stochastically, and both factors of a weight gradient's matmul are
  // transformed before they are rounded.
  bool has_4_bits() const { return of_others == Dtype::e2m1; }
  bool asks_largest() const { return (!has_blocks() && !of_before) || has_4_bits(); }
};

Recipe recipe_of(const Training& training) {
  if (training.precision == Precision::nvfp4)
    return {.length = 16,
            .square_weights = true,
            .of_gradients = Dtype::e2m1,
            .of_others = Dtype::e2m1};
  switch (training.fp8_recipe) {
    case Fp8Recipe::delayed:
      return {.of_before = true, .of_gradients = Dtype::e5m2};
    case Fp8Recipe::tensorwise:
      return {.of_gradients = Dtype::e5m2};
    case Fp8Recipe::blockwise:
      return {.length = 128, .square_weights = true, .powers = true};
    case Fp8Recipe::mxfp8:
      return {.length = 32, .powers = true};
  }
  return {};
}

bool is_linear(Op op) { return op == Op::linear || op == Op::expert_linear; }
bool is_weight_gradient(Op op) {
  return op == Op::linear_grad_weight || op == Op::expert_linear_grad_weight;
}
bool is_input_gradient(Op op) {
  return op == Op::linear_grad_input || op == Op::expert_linear_grad_input;
}

enum class What : std::uint8_t { activation, weight, gradient };

// Tensors with the largest elements of a tensor, and of its transposed and transformed copy. -1
// means that nothing needs them.
struct Largest {
  int whole = -1, transformed = -1;
};

// A rounded tensor and its scales, and those of its transposed copy, or -1 if there is no such
// copy.
struct Rounded {
  int bits = -1, scales = -1, transposed = -1, transposed_scales = -1;
  Largest largest;
};

// The tensors that a matmul reads for one rounded factor.
struct Factor {
  int bits = -1, scales = -1, largest = -1;
};

// Returns for each unit whether it is a block whose matmuls stay in 16 bits. The first and last
// blocks are counted in each stack of blocks. Blocks whose paths differ only in the last name are a
// stack.
std::vector<char> units_in_bf16(const Graph& graph, const Training& training) {
  const auto stack_of = [](const Unit& unit) { return unit.path.substr(0, unit.path.rfind('.')); };
  std::map<std::string, int> blocks, before;
  for (const Unit& unit : graph.units)
    if (unit.is_block) ++blocks[stack_of(unit)];
  std::vector<char> in_bf16(graph.units.size(), 0);
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    if (!graph.units[u].is_block) continue;
    const std::string stack = stack_of(graph.units[u]);
    in_bf16[u] = training.is_in_bf16(before[stack]++, blocks[stack]) ? 1 : 0;
  }
  return in_bf16;
}

constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // spreads small seeds over all bits

class Quantizer {
 public:
  Quantizer(const Graph& graph, const Plan& plan, const DeviceFacts& device)
      : old_(graph),
        out_(graph),
        recipe_(recipe_of(plan.training)),
        seed_(plan.training.seed),
        own_length_(plan.training.sequence_length / plan.parallelism.context),
        transposes_(device.transposes_8_bits),
        fuses_(plan.training.compiler != CompilerLevel::none),
        initial_of_gradients_(1.0 / static_cast<double>(targets_per_step(graph, plan))),
        weights_stay_(plan.parallelism.zero_stage < 3 || plan.shard_group() == 1),
        in_bf16_(units_in_bf16(graph, plan.training)),
        readers_(graph.tensors.size()),
        chosen_(graph.tensors.size(), 0),
        gathered_(graph.tensors.size()) {
    for (const Node& node : graph.nodes)
      for (int id : node.inputs) readers_[id].push_back(&node);
    for (const Node& node : graph.nodes)
      if (is_linear(node.op) && (node.op == Op::linear || plan.training.fp8_experts) &&
          can_be_rounded(node))
        chosen_[node.inputs[1]] = 1;
    if (!plan.training.fp8_gathers) return;
    for (const Parameter& parameter : graph.parameters)
      if (zero_stage_of(plan, parameter) == 3 && is_read_rounded_alone(parameter.tensor))
        gathered_[parameter.tensor] = gathered(parameter);
  }

  Graph run() {
    out_.nodes.clear();
    for (const Node& node : old_.nodes) {
      if (gathers_8_bits(node))
        gather(node);
      else
        append_node(out_, is_chosen(node) ? with_rounded_factors(node) : node);
    }
    return std::move(out_);
  }

 private:
  const Shape& shape(int tensor) const { return old_.tensor(tensor).type.shape; }

  static bool is_rows_of(const Node& node) {
    return node.op == Op::sequence_slice || node.op == Op::sequence_gather;
  }
  bool leads_to_route(const Node& node) const {
    return std::ranges::any_of(readers_[node.outputs[0]],
                               [](const Node* reader) { return reader->op == Op::route; });
  }

  bool can_be_rounded(const Node& node) const {
    const std::int64_t multiple = std::max<std::int64_t>(16, recipe_.length);
    const auto divides = [&](int tensor) {
      const Attributes of_node = with_matrices(node);
      const Matrices each = matrices_of(of_node, shape(tensor));
      return each.rows % multiple == 0 && each.columns % multiple == 0;
    };
    const auto& readers = readers_[node.outputs[0]];
    const bool routes = std::ranges::any_of(readers, [&](const Node* reader) {
      return reader->op == Op::route || (is_rows_of(*reader) && leads_to_route(*reader));
    });
    return old_.units[old_.unit_of(node)].holds_layer() && !routes && divides(node.inputs[0]) &&
           divides(node.inputs[1]);
  }

  // Returns attributes with the number of matrices in each operand: the number of experts for an
  // operation of experts, because each expert multiplies slots of its own.
  static Attributes with_matrices(const Node& at_node) {
    Attributes attributes;
    if (at_node.op == Op::expert_linear || at_node.op == Op::expert_linear_grad_input ||
        at_node.op == Op::expert_linear_grad_weight)
      attributes.matrices = at_node.attributes.experts;
    return attributes;
  }

  // Returns the weight of a linear layer or of its gradients.
  int weight_of(const Node& node) const {
    if (!is_weight_gradient(node.op)) return node.inputs[1];
    return old_.parameters[old_.tensor(node.outputs[0]).parameter].tensor;
  }
  bool is_chosen(const Node& node) const {
    const bool multiplies =
        is_linear(node.op) || is_input_gradient(node.op) || is_weight_gradient(node.op);
    return multiplies && in_bf16_[old_.unit_of(node)] == 0 && chosen_[weight_of(node)] != 0;
  }

  // Returns whether the node gathers rows, of which every rank has a share, and only chosen matmuls
  // read them, so that rounded rows can be gathered. This is never so with scales for blocks.
  bool gathers_8_bits(const Node& node) const {
    if (node.op != Op::sequence_gather || recipe_.has_blocks()) return false;
    const auto& readers = readers_[node.outputs[0]];
    return !readers.empty() &&
           std::ranges::all_of(readers, [&](const Node* reader) { return is_chosen(*reader); });
  }

  bool is_read_rounded_alone(int weight) const {
    const auto& readers = readers_[weight];
    return !readers.empty() && std::ranges::all_of(readers, [&](const Node* reader) {
      return is_chosen(*reader) && weight_of(*reader) == weight;
    });
  }

  // Adds and returns the tensors of a weight that is gathered in 8 bits. No node rounds it, because
  // its shards are rounded before (models/compiler/lower/rounded_weights.h).
  Rounded gathered(const Parameter& parameter) {
    const auto add_of = [&](const TensorType& type, Role role) {
      const int id = out_.add_tensor(type, role);
      out_.tensors[id].parameter = old_.tensor(parameter.tensor).parameter;
      return id;
    };
    Rounded made;
    made.bits = add_of({shape(parameter.tensor), recipe_.of_others}, Role::gathered_bits);
    made.scales = add_of({Shape{1, 1}, Dtype::f32}, Role::gathered_scale);
    return made;
  }

  Dtype format_of(What what) const {
    return what == What::gradient ? recipe_.of_gradients : recipe_.of_others;
  }

  // Returns whether rounding the tensor, or finding its largest element, is counted as part of the
  // kernel that makes the tensor. This is never so at compiler level `none`. Weights that ZeRO 3
  // shards count so too, because frameworks round each rank's shard before they gather it, and
  // their optimizer finds the largest elements.
  bool joins_maker(int tensor) const {
    if (fuses_ && old_.tensor(tensor).role == Role::parameter) return !weights_stay_;
    const int producer = old_.tensor(tensor).producer;
    return fuses_ && producer >= 0 && info(old_.nodes[producer].op).makes_8_bits;
  }

  int add(Op op, const Node& at_node, TensorIds inputs, const Attributes& attributes, Role role) {
    const int node = out_.add(op, at_node.module, inputs, attributes, at_node.phase);
    for (int id : out_.nodes[node].outputs) out_.tensors[id].role = role;
    return node;
  }

  // Returns the key of the Hadamard transform, or 0 if the tensor is not transformed. Both factors
  // of a weight gradient's matmul have the same key, and are transformed along the dimension that
  // is summed over.
  std::uint64_t hadamard_key_of(What what) const {
    return recipe_.has_4_bits() && what != What::weight ? (hash_of("hadamard") ^ seed_ * odd) | 1U
                                                        : 0;
  }

  // Returns tensors with the largest element of a tensor, or with those of earlier steps if scales
  // are delayed. They are -1 if scales of blocks suffice. `read_by` is the first matmul that reads
  // the rounded tensor. For a transformed tensor, a separate kernel finds the largest element.
  Largest largest_of_all(const Node& at_node, int tensor, What what, const Node& read_by,
                         Role role) {
    if (recipe_.of_before) return {kept_largest(tensor, what, read_by), -1};
    if (!recipe_.asks_largest()) return {};
    Attributes attributes;
    attributes.hadamard_key = hadamard_key_of(what);
    const bool transforms = attributes.hadamard_key != 0;
    if (transforms) attributes.matrices = with_matrices(at_node).matrices;
    attributes.joins_maker = joins_maker(tensor) && !transforms;
    const int node = add(Op::amax, at_node, {tensor}, attributes, role);
    return {out_.output(node, 0), transforms ? out_.output(node, 1) : -1};
  }

  int kept_largest(int tensor, What what, const Node& read_by) {
    const auto [found, is_new] = kept_largest_.try_emplace({tensor, old_.unit_of(read_by)}, -1);
    if (is_new) {
      constexpr const char* names[] = {" input", ".weight", " gradient"};
      found->second = out_.add_tensor({Shape{2}, Dtype::f32}, Role::largest);
      out_.rounded.push_back(
          {old_.modules[read_by.module].path + names[static_cast<std::size_t>(what)],
           found->second});
    }
    return found->second;
  }

  // Adds the node that rounds a tensor, with a transposed copy if `transposed`. `largest` comes
  // from largest_of_all().
  Rounded round(const Node& at_node, int tensor, What what, const Largest& largest, bool transposed,
                Role role) {
    Attributes attributes = with_matrices(at_node);
    attributes.made = format_of(what);
    attributes.scale_columns = recipe_.length;
    attributes.scale_rows = !recipe_.has_blocks()                            ? 0
                            : what == What::weight && recipe_.square_weights ? recipe_.length
                                                                             : 1;
    attributes.scales_are_powers = recipe_.powers;
    attributes.with_transposed = transposed;
    attributes.joins_maker = !recipe_.asks_largest() && joins_maker(tensor);
    attributes.scales_of_before = recipe_.of_before;
    if (recipe_.of_before && what == What::gradient) attributes.scale = initial_of_gradients_;
    attributes.hadamard_key = hadamard_key_of(what);
    if (recipe_.has_4_bits() && what == What::gradient) {
      attributes.rounding_key =
          (hash_of(old_.modules[at_node.module].path + " gradient") ^ seed_ * odd) | 1U;
      attributes.sequence_length = static_cast<int>(own_length_);
    }
    TensorIds inputs{tensor};
    if (largest.whole >= 0) inputs.push_back(largest.whole);
    if (largest.transformed >= 0) inputs.push_back(largest.transformed);
    const int node = add(Op::quantize, at_node, inputs, attributes, role);
    Rounded made{out_.output(node, 0), out_.output(node, 1), -1, -1, largest};
    if (transposed)
      made.transposed = out_.output(node, 2), made.transposed_scales = out_.output(node, 3);
    return made;
  }

  // Returns whether the tensor is rounded again in the backward. Rows that were gathered in the
  // forward are gathered and rounded again for the backward, so that only a rank's share is saved,
  // unless the rounded rows themselves were gathered.
  bool is_rounded_again(const Node& at_node, int tensor) const {
    const int producer = old_.tensor(tensor).producer;
    return at_node.phase != Phase::forward && producer >= 0 &&
           old_.nodes[producer].op == Op::sequence_gather &&
           old_.nodes[producer].phase == Phase::forward && !gathers_8_bits(old_.nodes[producer]);
  }

  // Returns the rounded gradient or activation. The node that rounds it comes before its first
  // reader in each unit.
  Rounded& rounded(const Node& at_node, int tensor, What what) {
    const int again = is_rounded_again(at_node, tensor) ? 1 : 0;
    const auto [found, is_new] = rounded_.try_emplace({tensor, old_.unit_of(at_node), again});
    if (is_new) {
      const Largest largest = largest_of_all(at_node, tensor, what, at_node, Role::activation);
      found->second = round(at_node, tensor, what, largest, transposes_ || recipe_.has_blocks(),
                            Role::activation);
    }
    return found->second;
  }

  const Rounded& rounded_weight(const Node& at_node) {
    const int weight = at_node.inputs[1];
    if (gathered_[weight].bits >= 0) return gathered_[weight];
    const bool forward = weights_stay_ || at_node.phase == Phase::forward;
    const auto [found, is_new] =
        weights_.try_emplace({weight, old_.unit_of(at_node), forward ? 1 : 0});
    if (is_new) {
      const Role role = weights_stay_ ? Role::of_step : Role::activation;
      const Largest largest = largest_of_all(at_node, weight, What::weight, at_node, role);
      found->second =
          round(at_node, weight, What::weight, largest, keeps_weights_transposed(), role);
    }
    return found->second;
  }

  // Returns whether transposed copies of weights are kept too. They are if scales differ along rows
  // and along columns. They also are in 4 bits, because the matrix units read both factors along
  // their memory, and no kernel transposes packed elements.
  bool keeps_weights_transposed() const {
    return (recipe_.has_blocks() && !recipe_.square_weights) || recipe_.has_4_bits();
  }

  void gather(const Node& node) {
    const bool forward = node.phase == Phase::forward;
    const What what = forward ? What::activation : What::gradient;
    const Node& read_by = *readers_[node.outputs[0]].front();
    Largest largest = largest_of_all(node, node.inputs[0], what, read_by, Role::activation);
    if (recipe_.asks_largest())
      largest.whole = out_.output(
          add(Op::tensor_maximum, node, {largest.whole}, node.attributes, Role::activation));
    Rounded share = round(node, node.inputs[0], what, largest, false, Role::activation);
    share.bits = out_.output(add(node.op, node, {share.bits}, node.attributes, Role::activation));
    rounded_[{node.outputs[0], old_.unit_of(node), 0}] = share;
  }

  // Transposes a factor if the device asks for that and rounding has not done it already.
  void transpose_whole(const Node& at_node, Rounded& factor) {
    if (!transposes_ || factor.transposed >= 0) return;
    factor.transposed = out_.output(
        add(Op::transpose, at_node, {factor.bits}, with_matrices(at_node), Role::activation));
    factor.transposed_scales = factor.scales;
  }

  // Rounds the weights of all matmuls that read the same rows before the first of them, because
  // these may be written together, in chunks (models/compiler/lower/tensor_chunks.h).
  void round_weights_of(const Node& node) {
    for (const Node* reader : readers_[node.inputs[0]])
      if (reader->op == node.op && reader->phase == node.phase && is_chosen(*reader) &&
          old_.unit_of(*reader) == old_.unit_of(node))
        rounded_weight(*reader);
  }

  // Gives a matmul its rounded weight. If the device or the scales require it, the elements that
  // are summed over are contiguous in memory. If a weight can be transposed, only one copy is kept:
  // a second one would take a byte of memory for each parameter, and transposing takes little time
  // compared with the matmul.
  void take_weight(const Node& node, Node& made) {
    Rounded weight = rounded_weight(node);
    const bool in_out = node.attributes.weight_in_out;
    const bool along = in_out == is_input_gradient(node.op);
    if (!along) transpose_whole(node, weight);
    const bool turns = !along && weight.transposed >= 0;
    if (turns) made.attributes.weight_in_out = !in_out;
    take(made, turns ? Factor{weight.transposed, weight.transposed_scales, weight.largest.whole}
                     : Factor{weight.bits, weight.scales, weight.largest.whole});
  }

  void take(Node& made, const Factor& factor) {
    made.inputs.push_back(factor.bits);
    scales_.push_back(factor.scales);
    if (recipe_.has_4_bits()) largest_.push_back(factor.largest);
  }

  void take_factors_of_weight_gradient(const Node& node, Node& made) {
    for (int i = 0; i < 2; ++i) {
      Rounded& factor = rounded(node, node.inputs[i], i == 0 ? What::activation : What::gradient);
      transpose_whole(node, factor);
      const bool turned = factor.transposed >= 0;
      made.attributes.factors_transposed = turned;
      take(made,
           turned ? Factor{factor.transposed, factor.transposed_scales, factor.largest.transformed}
                  : Factor{factor.bits, factor.scales, factor.largest.whole});
    }
  }

  Node with_rounded_factors(const Node& node) {
    Node made = node;
    made.inputs = {};
    made.attributes.made = old_.tensor(node.inputs[0]).type.dtype;
    scales_.clear();
    largest_.clear();
    if (is_weight_gradient(node.op)) {
      take_factors_of_weight_gradient(node, made);
    } else {
      const What what = is_linear(node.op) ? What::activation : What::gradient;
      const Rounded& first = rounded(node, node.inputs[0], what);
      take(made, {first.bits, first.scales, first.largest.whole});
      round_weights_of(node);
      take_weight(node, made);
    }
    for (int id : scales_) made.inputs.push_back(id);
    for (int id : largest_) made.inputs.push_back(id);
    for (int i = 2; i < node.inputs.size(); ++i) made.inputs.push_back(node.inputs[i]);
    return made;
  }

  const Graph& old_;
  Graph out_;
  const Recipe recipe_;
  const std::uint64_t seed_;
  const std::int64_t own_length_;  // tokens of a sequence that this rank holds
  const bool transposes_, fuses_;
  // The initial scale of gradients (Attributes::scale), if scales are delayed.
  const double initial_of_gradients_;
  // Whether rounded weights are kept from one micro-batch to the next.
  const bool weights_stay_;
  const std::vector<char> in_bf16_;                // per unit
  std::vector<std::vector<const Node*>> readers_;  // per tensor: the nodes that read it
  // Per tensor: whether it is a weight that is rounded.
  std::vector<char> chosen_;
  // Per tensor: its rounded form, if it is a weight that is rounded before it is gathered.
  std::vector<Rounded> gathered_;
  std::map<std::tuple<int, int, int>, Rounded> rounded_;  // by tensor, unit, and whether again
  std::map<std::tuple<int, int, int>, Rounded> weights_;  // by tensor, unit, and whether forward
  std::map<std::pair<int, int>, int> kept_largest_;       // by tensor and unit
  std::vector<int> scales_, largest_;                     // of the node that is being made
};

}  // namespace

Graph quantize(Graph graph, const Plan& plan, const DeviceFacts& device) {
  if (!quantizes(plan.training.precision)) return graph;
  return Quantizer(graph, plan, device).run();
}

}  // namespace meshwright::compiler
