#include "sim/framework/autocast_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "sim/framework/allocator.h"

namespace meshwright::sim {

namespace {

constexpr std::int64_t half = 2, single = 4, mask = 1, random_bits = 4;

std::int64_t elements(const TensorType& type) { return type.shape.elements(); }

using Sizes = std::vector<std::int64_t>;  // sizes of blocks in bytes

// The memory that an operation needs in addition to its inputs.
struct Footprint {
  std::int64_t output_size = half;  // bytes of an element of its output
  std::vector<int> kept_inputs;     // tensors that the backward pass needs as they are
  Sizes kept;  // bytes of copies, masks and statistics that the backward pass needs
  Sizes forward_scratch, backward_scratch;
};

// Returns the bytes per element that dropout saves for the backward pass.
std::int64_t kept_by_dropout(const FrameworkTraits& framework) {
  if (framework.execution == Execution::eager) return mask;
  return framework.keeps_random_bits ? random_bits : 0;
}

class AutocastTraining {
 public:
  AutocastTraining(const Graph& graph, const FrameworkTraits& framework, Allocator& memory)
      : graph_(graph),
        compiled_(framework.execution == Execution::compiled),
        softmax_keeps_input_(framework.softmax_keeps_input && !compiled_),
        of_dropout_(kept_by_dropout(framework)),
        memory_(memory) {
    std::int64_t parameters = 0;
    for (const Parameter& parameter : graph.parameters) {
      memory_.allocate(bytes_of_state(parameter.tensor));
      parameters += bytes_of_state(parameter.tensor);
    }
    for (; framework.gradient_buckets && parameters > 0; parameters -= bucket_bytes)
      memory_.allocate(std::min(parameters, bucket_bytes));
  }

  // Allocates and releases the memory of one training step. Gradients of parameters appear in the
  // first backward pass, moments in the first step of the optimizer, and both stay.
  void step() {
    begin();
    std::vector<Footprint> footprints;
    kept_.clear();
    for (const Node& node : graph_.nodes) {
      footprints.push_back(of(node));
      forward(node, footprints.back());
    }
    leave_model();
    for (std::size_t i = footprints.size(); i-- > 0;)
      backward(graph_.nodes[i], footprints[i], kept_[i]);
    for (const Parameter& parameter : graph_.parameters) optimize(parameter.tensor);
  }

 private:
  static constexpr std::int64_t bucket_bytes = 25 << 20;  // the default of DistributedDataParallel

  void begin() {
    const std::size_t tensors = graph_.tensors.size();
    readers_.assign(tensors, 0);
    size_.assign(tensors, single);
    block_.assign(tensors, -1);
    gradient_.assign(tensors, -1);
    state_gradient_.resize(tensors, -1);
    weights_.clear(), copied_.clear(), held_.clear();
    for (const Node& node : graph_.nodes)
      for (int id : node.inputs) ++readers_[id];
  }

  bool is_activation(int id) const {
    return graph_.tensor(id).role == Role::activation && graph_.tensor(id).producer >= 0;
  }
  std::int64_t bytes(int id) const { return elements(graph_.tensor(id).type) * size_[id]; }
  std::int64_t bytes_of_state(int parameter) const {
    return elements(graph_.tensor(parameter).type) * single;
  }
  std::int64_t rows(int id) const { return graph_.tensor(id).type.shape[0]; }
  bool is_half(int id) const { return size_[id] == half; }

  std::vector<int> allocate(const Sizes& sizes) {
    std::vector<int> blocks;
    for (const std::int64_t size : sizes) blocks.push_back(memory_.allocate(size));
    return blocks;
  }
  void release(const std::vector<int>& blocks) {
    for (const int block : blocks) memory_.release(block);
  }

  void drop_reader(int id) {
    if (is_activation(id) && --readers_[id] == 0) memory_.release(block_[id]);
  }

  // Allocates one fp16 copy of a parameter for all matmuls, when the first one needs it (autocast's
  // cache). The copy stays until the last matmul that used it has had its backward pass.
  void copy_weight(int id) {
    WeightCopy& copy = weights_[id];
    if (copy.readers++ == 0) copy.block = memory_.allocate(half * elements(graph_.tensor(id).type));
  }
  void drop_weight(int id) {
    WeightCopy& copy = weights_[id];
    if (--copy.readers == 0) memory_.release(copy.block);
  }

  Footprint of(const Node& node) {
    const int x = node.inputs[0];
    const std::int64_t n = elements(graph_.tensor(x).type);
    const Attributes& a = node.attributes;
    const std::int64_t same = size_[x];
    Footprint f;
    switch (node.op) {
      case Op::embedding:
        f.output_size = single;
        f.backward_scratch = {single * elements(graph_.tensor(node.inputs[1]).type)};
        return f;
      case Op::add_position:
      case Op::add_row:
        f.output_size = single;
        return f;
      case Op::select_positions:
        f.output_size = same;
        return f;
      case Op::layer_norm:  // saves the input in fp32, and statistics of each row
        f.output_size = single;
        f.kept = {elements(graph_.tensor(node.outputs[1]).type) * single};
        keep_wide(x, f);
        return f;
      case Op::linear: {
        keep_half(x, f);
        const std::int64_t weights = elements(graph_.tensor(node.inputs[1]).type);
        f.backward_scratch = {half * weights, single * weights};
        if (!is_half(x)) f.backward_scratch.push_back(half * n);
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
        // transformers' NewGELUActivation runs operation by operation. pow is one of autocast's
        // fp32 operations, and everything after it stays fp32. Saved are the x of pow, tanh(...),
        // 0.5 x and 1 + tanh(...).
        f.output_size = single;
        f.kept = {single * n, single * n, same * n, single * n};
        f.forward_scratch = {single * n};
        f.backward_scratch = {single * n, single * n};
        return f;
      case Op::relu:
      case Op::tanh:  // tanh and ReLU save their outputs
        f.output_size = same;
        f.kept_inputs = {node.outputs[0]};
        return f;
      case Op::add:
        f.output_size = std::max(same, size_[node.inputs[1]]);
        return f;
      case Op::dropout:
        f.output_size = same;
        keep_mask(n, f);
        return f;
      case Op::cross_entropy:
        // The loss makes an fp32 copy of the logits and saves their log-softmax. Its backward makes
        // the gradients of both. A language model first copies the logits without the last
        // position.
        f.output_size = single;
        if (compiled_) {  // computed again from the logits, in one kernel each way
          f.kept_inputs = {x};
          return f;
        }
        f.kept = {single * n};
        (softmax_keeps_input_ ? f.kept : f.forward_scratch).push_back(single * n);
        if (shifts_logits()) f.forward_scratch.push_back(half * n);
        f.backward_scratch = {single * n,
                              // The second block and that of the fp16 gradient are as large as an
                              // fp32 gradient.
                              (single - half) * n};
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
      f.kept.push_back(single * elements(graph_.tensor(x).type));
    else
      f.kept_inputs.push_back(x);
  }
  void keep_mask(std::int64_t dropped, Footprint& f) const {
    if (of_dropout_ > 0) f.kept.push_back(of_dropout_ * dropped);
  }
  // Saves the input of a matmul in fp16. Every eager matmul makes its own copy of an fp32 input. A
  // compiled program makes one copy for all matmuls.
  void keep_half(int x, Footprint& f) {
    if (is_half(x))
      f.kept_inputs.push_back(x);
    else if (!compiled_ || copied_.insert(x).second)
      f.kept.push_back(half * elements(graph_.tensor(x).type));
  }

  // Returns the memory of the self-attention of the library transformers. Queries, keys and values
  // are views in another order, which each matmul copies. Scores are fp16 until the softmax, whose
  // fp32 result is saved. Also saved are what dropout needs and, unless a compiler recomputes them,
  // the fp16 probabilities that are multiplied with the values.
  Footprint of_attention(const Node& node) const {
    const Attributes& a = node.attributes;
    if (a.attention != AttentionKernel::unfused)
      throw InputError("attention keeps its score matrix here; use unfused attention");
    // A decoder attends to the encoder's tokens, so there may be more or fewer keys than queries.
    const std::int64_t queries = rows(node.inputs[0]);
    const std::int64_t keys = node.inputs.size() > 1 ? rows(node.inputs[1]) : queries;
    const std::int64_t scores = queries * keys / a.micro_batch * a.heads;
    Footprint f;
    const std::int64_t keys_bytes = half * keys * a.kv_heads * a.head_dim;
    const std::int64_t values_bytes = half * keys * a.kv_heads * value_dim_of(a);
    f.kept = {half * queries * a.heads * a.head_dim, keys_bytes, values_bytes, single * scores};
    if (a.dropout > 0) keep_mask(scores, f);
    if (!compiled_) f.kept.push_back(half * scores);
    const std::int64_t passing = (compiled_ ? half : single) * scores;
    f.forward_scratch = {passing, passing};
    if (softmax_keeps_input_) {
      f.forward_scratch.pop_back();
      f.kept.push_back(passing);
    }
    f.backward_scratch = {passing, passing, passing};
    return f;
  }

  void forward(const Node& node, const Footprint& f) {
    const int y = node.outputs[0];  // the statistics of a norm, its second output, are in `kept`
    if (node.op == Op::linear) copy_weight(node.inputs[1]);
    const std::vector<int> scratch = allocate(f.forward_scratch);
    kept_.push_back(allocate(f.kept));
    size_[y] = f.output_size;
    block_[y] = memory_.allocate(bytes(y));
    ++readers_[y];  // a reader, until this operation has ended
    for (int id : f.kept_inputs) ++readers_[id];
    release(scratch);
    if (node.op == Op::cross_entropy && !compiled_) hold(node.inputs[0]);
    if (node.op == Op::attention && node.attributes.causal && !compiled_)
      for (int id : node.inputs) hold(id);
    for (int id : node.inputs) drop_reader(id);
    drop_reader(y);
  }

  // Keeps a tensor that the model returns until leave_model(), which is called when the loss is
  // computed: logits, and the inputs of causal attention, whose keys and values a language model
  // returns (`use_cache`).
  void hold(int id) {
    ++readers_[id];
    held_.push_back(id);
  }
  void leave_model() {
    for (int id : held_) drop_reader(id);
  }

  void backward(const Node& node, const Footprint& f, const std::vector<int>& kept) {
    std::vector<int> scratch;
    for (int id : node.inputs) {
      if (!is_activation(id)) continue;
      const int gradient = memory_.allocate(bytes(id));
      // If a tensor has a gradient already, the next one is computed in its own block before it is
      // added.
      if (gradient_[id] >= 0)
        scratch.push_back(gradient);
      else
        gradient_[id] = gradient;
    }
    for (const int block : allocate(f.backward_scratch)) scratch.push_back(block);
    for (int id : node.inputs)
      if (graph_.tensor(id).role == Role::parameter && state_gradient_[id] < 0)
        state_gradient_[id] = memory_.allocate(bytes_of_state(id));
    release(scratch);
    if (const int gradient = gradient_[node.outputs[0]]; gradient >= 0) memory_.release(gradient);
    release(kept);
    for (int id : f.kept_inputs) drop_reader(id);
    if (node.op == Op::linear) drop_weight(node.inputs[1]);
  }

  void optimize(int parameter) {
    if (moments_.insert(parameter).second)
      for (int i = 0; i < 2; ++i) memory_.allocate(bytes_of_state(parameter));
    // The denominator of the update, for a moment.
    memory_.release(memory_.allocate(bytes_of_state(parameter)));
  }

  struct WeightCopy {
    int readers = 0, block = -1;
  };

  const Graph& graph_;
  bool compiled_, softmax_keeps_input_;
  std::int64_t of_dropout_;
  Allocator& memory_;
  std::vector<int> readers_;        // by tensor: number of operations that still need it
  std::vector<std::int64_t> size_;  // by tensor: bytes of an element
  std::vector<int> block_;          // by tensor: the number of its block
  // By tensor: the block of its gradient, or -1 as long as there is none.
  std::vector<int> gradient_;
  // By tensor of a parameter: as gradient_, but kept from step to step.
  std::vector<int> state_gradient_;
  std::set<int> moments_;               // tensors of the parameters that have moments
  std::vector<std::vector<int>> kept_;  // by node: blocks that its backward pass needs
  std::map<int, WeightCopy> weights_;
  std::set<int> copied_;  // fp32 tensors that have a saved fp16 copy
  std::vector<int> held_;
};

}  // namespace

Graph with_source_length(Graph forward, int tokens) {
  MESHWRIGHT_CHECK(forward.decoder_tokens >= 0, "only an encoder reads a source of its own length");
  std::vector<bool> of_source(forward.tensors.size(), false);
  const std::int64_t sequences = forward.micro_batch;
  const auto lengthen = [&](int id) {
    std::int64_t& rows = forward.tensors[id].type.shape[0];
    of_source[id] = rows == sequences * forward.sequence_length;
    if (of_source[id]) rows = sequences * tokens;
  };
  lengthen(forward.tokens);
  // The number of rows of an output is that of the first input, which for attention holds the
  // queries.
  for (const Node& node : forward.nodes)
    if (of_source[node.inputs[0]])
      for (int id : node.outputs) lengthen(id);
  return forward;
}

std::int64_t autocast_peak_bytes(const Graph& forward, const FrameworkTraits& framework) {
  CountingAllocator memory;
  AutocastTraining training(forward, framework, memory);
  for (int step = 0; step < 2; ++step) training.step();
  return memory.peak_bytes();
}

bool autocast_fits(const Graph& forward, const FrameworkTraits& framework, std::int64_t capacity) {
  constexpr int steps = 3;  // the first one runs without moments, the others with them
  CachingAllocator memory(capacity);
  AutocastTraining training(forward, framework, memory);
  for (int step = 0; step < steps && !memory.out_of_memory(); ++step) training.step();
  return !memory.out_of_memory();
}

}  // namespace meshwright::sim
