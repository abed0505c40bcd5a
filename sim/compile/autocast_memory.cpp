#include "sim/compile/autocast_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/core/error.h"

namespace meshwright {

namespace {

constexpr std::int64_t half = 2, single = 4, mask = 1;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::int64_t elements(const TensorType& type) { return type.shape.elements(); }

// What an operation does to memory beside its inputs and outputs.
struct Footprint {
  std::int64_t output_size = half;  // bytes of an element of its output
  std::vector<int> kept_inputs;     // tensors that the backward needs as they are
  std::int64_t kept = 0;            // bytes of copies, masks and statistics that it needs
  std::int64_t forward_scratch = 0, backward_scratch = 0;
};

class AutocastStep {
 public:
  AutocastStep(const Graph& graph, Execution execution, bool gradient_buckets)
      : graph_(graph), compiled_(execution == Execution::compiled) {
    for (const Parameter& parameter : graph.parameters)
      live_ += elements(graph.tensor(parameter.tensor).type) * (gradient_buckets ? 5 : 4) * single;
    readers_.resize(graph.tensors.size(), 0);
    size_.resize(graph.tensors.size(), single);
    gradient_.resize(graph.tensors.size(), 0);
    for (const Node& node : graph.nodes)
      for (int id : node.inputs) ++readers_[at(id)];
  }

  std::int64_t run() {
    std::vector<Footprint> footprints;
    for (const Node& node : graph_.nodes) {
      footprints.push_back(of(node));
      forward(node, footprints.back());
    }
    leave_model();
    for (std::size_t i = footprints.size(); i-- > 0;) backward(graph_.nodes[i], footprints[i]);
    return peak_;
  }

 private:
  bool is_activation(int id) const {
    return graph_.tensor(id).role == Role::activation && graph_.tensor(id).producer >= 0;
  }
  std::int64_t bytes(int id) const { return elements(graph_.tensor(id).type) * size_[at(id)]; }
  std::int64_t rows(int id) const { return graph_.tensor(id).type.shape[0]; }
  bool is_half(int id) const { return size_[at(id)] == half; }

  void use(std::int64_t scratch) { peak_ = std::max(peak_, live_ + scratch); }

  void drop_reader(int id) {
    if (is_activation(id) && --readers_[at(id)] == 0) live_ -= bytes(id);
  }

  // One fp16 copy of a parameter for all products until the model has returned (autocast's cache),
  // then for those whose backward is still to come.
  void copy_weight(int id) {
    if (weight_readers_[id]++ == 0) live_ += half * elements(graph_.tensor(id).type);
  }
  void drop_weight(int id) {
    if (--weight_readers_[id] == 0) live_ -= half * elements(graph_.tensor(id).type);
  }

  Footprint of(const Node& node) {
    const int x = node.inputs[0];
    const std::int64_t n = elements(graph_.tensor(x).type);
    const Attributes& a = node.attributes;
    const std::int64_t same = size_[at(x)];
    Footprint f;
    switch (node.op) {
      case Op::embedding:
        f.output_size = single;
        f.backward_scratch = single * elements(graph_.tensor(node.inputs[1]).type);
        return f;
      case Op::add_position:
      case Op::add_row:
        f.output_size = single;
        return f;
      case Op::select_positions:
        f.output_size = same;
        return f;
      case Op::layer_norm:  // input in fp32, mean and deviation of each row
        f.output_size = single;
        f.kept = elements(graph_.tensor(node.outputs[1]).type) * single;
        keep_wide(x, f);
        return f;
      case Op::linear: {
        keep_half(x, f);
        const std::int64_t weights = elements(graph_.tensor(node.inputs[1]).type);
        f.backward_scratch = (half + single) * weights + (is_half(x) ? 0 : half * n);
        return f;
      }
      case Op::attention:
        return of_attention(node);
      case Op::gelu:
        if (!a.gelu_tanh || compiled_) {
          f.output_size = same;
          f.kept_inputs = {x};
          return f;
        }
        // transformers' NewGELUActivation, operation by operation; pow is one of autocast's fp32
        // operations, and everything after it stays fp32: x of pow, tanh(...), 0.5 x, 1 +
        // tanh(...).
        f.output_size = single;
        f.kept = (single + single + same + single) * n;
        f.forward_scratch = single * n;
        f.backward_scratch = 2 * single * n;
        return f;
      case Op::relu:
      case Op::tanh:  // keep what they make
        f.output_size = same;
        f.kept_inputs = {node.outputs[0]};
        return f;
      case Op::add:
        f.output_size = std::max(same, size_[at(node.inputs[1])]);
        return f;
      case Op::dropout:
        f.output_size = same;
        f.kept = mask * n;
        return f;
      case Op::cross_entropy:
        // An fp32 copy of the logits, their log-softmax, which is kept; in the backward the
        // gradients of both. A language model first copies the logits without the last position.
        f.output_size = single;
        if (compiled_) {  // from the logits, in one kernel each way
          f.kept_inputs = {x};
          return f;
        }
        f.kept = single * n;
        f.forward_scratch = single * n + (shifts_logits() ? half * n : 0);
        f.backward_scratch = 2 * single * n - half * n;
        return f;
      default:
        throw InputError(
            "what a framework keeps for " + std::string(info(node.op).name) +
            " is not known; largest batches are predicted of BERT, GPT-2 and their kin");
    }
  }

  bool shifts_logits() const { return graph_.positions < 0 && graph_.decoder_tokens < 0; }

  void keep_wide(int x, Footprint& f) const {
    if (is_half(x))
      f.kept += single * elements(graph_.tensor(x).type);
    else
      f.kept_inputs.push_back(x);
  }
  // Eager products make a copy of an fp32 input each.
  void keep_half(int x, Footprint& f) {
    if (is_half(x))
      f.kept_inputs.push_back(x);
    else if (!compiled_ || copied_.insert(x).second)
      f.kept += half * elements(graph_.tensor(x).type);
  }

  // transformers' self-attention: queries, keys and values are views in another order, of which
  // each product makes a copy; scores are fp16 until the softmax, whose fp32 result is kept; so are
  // dropout's mask and the fp16 probabilities that meet the values, which a compiler makes again.
  Footprint of_attention(const Node& node) const {
    const Attributes& a = node.attributes;
    if (a.attention != AttentionKernel::unfused)
      throw InputError("attention keeps its score matrix here; use unfused attention");
    // A decoder's queries may meet more or fewer keys of the encoder.
    const std::int64_t queries = rows(node.inputs[0]);
    const std::int64_t keys = node.inputs.size() > 1 ? rows(node.inputs[1]) : queries;
    const std::int64_t scores = queries * keys / a.micro_batch * a.heads;
    Footprint f;
    f.kept = half * (queries * a.heads + 2 * keys * a.kv_heads) * a.head_dim;
    f.kept += scores * (single + (compiled_ ? 0 : half) + (a.dropout > 0 ? mask : 0));
    f.forward_scratch = (compiled_ ? 2 * half : 2 * single) * scores;
    f.backward_scratch = (compiled_ ? 3 * half : 3 * single) * scores;
    return f;
  }

  void forward(const Node& node, const Footprint& f) {
    const int y = node.outputs[0];  // a norm's statistics are in `kept`
    size_[at(y)] = f.output_size;
    live_ += bytes(y);
    ++readers_[at(y)];  // while it is made
    if (node.op == Op::linear) copy_weight(node.inputs[1]);
    for (int id : f.kept_inputs) ++readers_[at(id)];
    live_ += f.kept;
    use(f.forward_scratch);
    if (node.op == Op::cross_entropy && !compiled_) hold(node.inputs[0]);
    if (node.op == Op::attention && node.attributes.causal && !compiled_)
      for (int id : node.inputs) hold(id);
    for (int id : node.inputs) drop_reader(id);
    drop_reader(y);
  }

  // The model's answer: logits, and the keys and values of a language model (`use_cache`), alive
  // until the loss is there.
  void hold(int id) {
    ++readers_[at(id)];
    held_.push_back(id);
  }
  void leave_model() {
    for (int id : held_) drop_reader(id);
  }

  void backward(const Node& node, const Footprint& f) {
    std::int64_t again = 0;  // a second gradient of one tensor is made before it is added
    for (int id : node.inputs) {
      if (!is_activation(id)) continue;
      if (gradient_[at(id)] > 0) {
        again += gradient_[at(id)];
        continue;
      }
      gradient_[at(id)] = bytes(id);
      live_ += gradient_[at(id)];
    }
    use(f.backward_scratch + again);
    live_ -= gradient_[at(node.outputs[0])];
    live_ -= f.kept;
    for (int id : f.kept_inputs) drop_reader(id);
    if (node.op == Op::linear) drop_weight(node.inputs[1]);
  }

  const Graph& graph_;
  bool compiled_;
  std::int64_t live_ = 0, peak_ = 0;
  std::vector<int> readers_;            // by tensor: who still needs it
  std::vector<std::int64_t> size_;      // by tensor: bytes of an element
  std::vector<std::int64_t> gradient_;  // by tensor: bytes of its gradient, once there is one
  std::map<int, int> weight_readers_;
  std::set<int> copied_;  // fp32 tensors of which there is an fp16 copy
  std::vector<int> held_;
};

}  // namespace

Graph with_source_length(Graph forward, int tokens) {
  MESHWRIGHT_CHECK(forward.decoder_tokens >= 0, "only an encoder reads a source of its own length");
  std::vector<bool> of_source(forward.tensors.size(), false);
  const std::int64_t sequences = forward.micro_batch;
  const auto lengthen = [&](int id) {
    std::int64_t& rows = forward.tensors[at(id)].type.shape[0];
    of_source[at(id)] = rows == sequences * forward.sequence_length;
    if (of_source[at(id)]) rows = sequences * tokens;
  };
  lengthen(forward.tokens);
  // Rows are those of the first input: of an attention, the queries.
  for (const Node& node : forward.nodes)
    if (of_source[at(node.inputs[0])])
      for (int id : node.outputs) lengthen(id);
  return forward;
}

std::int64_t autocast_peak_bytes(const Graph& forward, Execution execution, bool gradient_buckets) {
  return AutocastStep(forward, execution, gradient_buckets).run();
}

}  // namespace meshwright
