// The computation that is trained, as typed operations in topological order: one micro-batch of one
// model replica, on one rank of its tensor group. Passes (models/compiler/passes) turn the whole
// model's forward graph into the split, differentiated graph that models/compiler/lower cuts into
// Programs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/program/graph/attributes.h"
#include "models/program/graph/op.h"
#include "models/program/graph/published.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright {

// At most eight tensor ids, stored inline.
class TensorIds {
 public:
  TensorIds() = default;
  TensorIds(std::initializer_list<int> list) {
    for (int id : list) push_back(id);
  }
  void push_back(int id) { ids_[static_cast<std::size_t>(size_++)] = id; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](int i) const { return ids_[static_cast<std::size_t>(i)]; }
  int& operator[](int i) { return ids_[static_cast<std::size_t>(i)]; }
  bool operator==(const TensorIds&) const = default;
  const int* begin() const { return ids_.data(); }
  const int* end() const { return ids_.data() + size_; }
  int* begin() { return ids_.data(); }
  int* end() { return ids_.data() + size_; }

 private:
  std::array<int, 8> ids_{};
  int size_ = 0;
};

// How tensor parallelism cuts a parameter (expert parallelism one of experts): along `dim`, each
// segment into T contiguous parts of which rank t holds the t-th (GPT-2's fused q|k|v has three
// segments). dim < 0: every rank holds it whole.
struct Cut {
  int dim = -1;
  std::vector<std::int64_t> segments;  // sizes along dim, of the padded tensor
  bool operator==(const Cut&) const = default;
};

enum class Initial : std::uint8_t {
  normal,
  residual_normal,
  ones,
  zeros,
  kaiming_uniform  // within 1 / sqrt(inputs): torch.nn.Linear's
};                 // residual: 0.02/sqrt(2*layers)

struct Parameter {
  std::string name;    // Hugging Face's spelling
  Shape global_shape;  // as published: unsplit, unpadded (a convolution's weight in 4 dimensions)
  Shape padded_shape;  // unsplit; differs from global_shape in the vocabulary only
  Shape shape;         // as this rank holds it
  Dtype dtype = Dtype::f32;
  Cut cut;                            // how T > 1 ranks would cut it; {} when never
  bool is_cut = false;                // shape is 1/T of padded_shape along cut.dim
  bool of_experts = false;            // [E, ...]; experts.h has its name
  bool is_cut_by_experts = false;     // shape has the experts of one rank of the expert group
  std::optional<PublishedPart> part;  // of what it is published with; none: it is published alone
  Initial initial = Initial::normal;
  bool decay = true;  // weight decay: matrices only
  bool partial_over_tensor =
      false;  // used on a share of the rows: the tensor group's gradients must be summed
  bool trainable = true;  // false: it has no gradient and no optimizer states
  bool counted = true;    // counts as a parameter of its own (false for a persistent buffer)
  int tensor = -1;        // its tensor in the graph
  int gradient = -1;      // the tensor of its gradient, made by `backward`
  bool operator==(const Parameter&) const = default;
};

enum class Role : std::uint8_t {
  activation,
  input,
  parameter,
  parameter_gradient,
  of_step,  // made of parameters once a step, kept for all its micro-batches
  largest,  // f32 [2], from step to step: the largest element of what earlier steps rounded, and of
            // what this one did (Graph::rounded)
  // Of a parameter whose shards are rounded when a step begins: its bits as they are gathered, and
  // f32 [1,1], what they are multiplied by.
  gathered_bits,
  gathered_scale
};
enum class Phase : std::uint8_t { forward, recompute, backward };

struct Tensor {
  TensorType type;
  Role role = Role::activation;
  int producer = -1;   // node; -1 for inputs and parameters
  int parameter = -1;  // index into Graph::parameters
  int alias_of = -1;   // an in-place output shares the memory of this tensor
};

// Returns whether the tensor is a parameter, as it is or rounded.
constexpr bool is_weight(const Tensor& tensor) {
  return tensor.role == Role::parameter || tensor.role == Role::gathered_bits;
}
// Returns whether a node makes this output, and does not add to it.
constexpr bool is_made(const Tensor& output) { return output.role != Role::parameter_gradient; }

struct Node {
  Op op;
  Phase phase = Phase::forward;
  int module = 0;  // index into Graph::modules
  TensorIds inputs;
  TensorIds outputs;
  Attributes attributes;
};

// A module that computes something, e.g. `transformer.h.3.mlp.c_fc`. Its unit is the link of the
// chain that stages are cut from (an embedding, a block, the head).
struct Module {
  std::string path;
  int unit = 0;
};

struct Unit {
  std::string path;       // `transformer.h.3`
  bool is_block = false;  // one of the repeated layers: what recomputation and sharding work on
  // A block of multi-token prediction. It follows those layers and is always on the stage of the
  // next unit.
  bool predicts_ahead = false;

  bool holds_layer() const { return is_block || predicts_ahead; }
};

// A tensor that is rounded to 8 bits with a scale from its largest elements in earlier steps. The
// name is the same under all degrees.
struct RoundedTensor {
  std::string name;  // `model.layers.3.mlp.down_proj.weight`, or ... ` input`, ` gradient`
  int largest = -1;  // its tensor with that role
};

// Multi-token prediction: what the block of one depth reads and is to say, a token further on than
// the depth before it. The main model's depth is 0.
struct TokenAhead {
  int tokens = -1;   // i32 [rows]: `depth` behind each; 0 where there is none
  int targets = -1;  // i32 [rows]: the one behind that, or ignored_target
  int loss = -1;     // f32 [rows]
};

// The share of the activations between modules that a rank of the tensor group holds.
enum class Held : std::uint8_t {
  whole,   // all of them, as every other rank
  rows,    // a contiguous share of the rows (sequence parallelism; own batches: whole sequences)
  columns  // a share of the hidden size (tensor layout `memory`)
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;
  std::vector<Module> modules;
  std::vector<Unit> units;  // in order of execution
  std::vector<RoundedTensor> rounded;

  int tokens = -1;          // inputs: i32 [rows], or the pixels of images: [b,pixels]
  int targets = -1;         // i32: [rows], or [b*predicted] (mlm), or [b,2] (qa), or [b] (label)
  int positions = -1;       // i32 [b,predicted] (mlm), or [b,1] (label)
  int decoder_tokens = -1;  // i32 [rows]: what a decoder reads (seq2seq)
  int documents = -1;       // i32 [rows]: where each token's document begins (documents.h)
  // Documents of all tokens of which attention has some heads here, where heads are exchanged.
  int exchanged_documents = -1;
  int loss = -1;                  // f32 [targets]
  std::vector<TokenAhead> ahead;  // of depth 1, 2, ...
  std::int64_t vocabulary = 0;    // unpadded

  int micro_batch = 1;
  int sequence_length = 1;  // tokens of a sequence that one rank holds
  int tensor_degree = 1;
  int context_degree = 1;
  Held held = Held::whole;
  // Own batches: a rank reads this part of the micro-batch's sequences, of `documents` all.
  int input_parts = 1;
  Precision precision = Precision::fp32;
  CompilerLevel compiler = CompilerLevel::fused;

  // Appends a node; its output tensors get the types that the table infers. Returns the node's
  // index.
  int add(Op op, int module, TensorIds inputs, const Attributes& attributes,
          Phase phase = Phase::forward);
  // Appends a node for a gradient. Its inferred outputs are followed by the `accumulated` parameter
  // gradients.
  int add_gradient(Op op, int module, TensorIds inputs, TensorIds accumulated,
                   const Attributes& attributes);
  int output(int node, int i = 0) const { return nodes[static_cast<std::size_t>(node)].outputs[i]; }
  int add_tensor(TensorType type, Role role, int producer = -1);
  int add_parameter(Parameter parameter);  // makes its tensor; returns the tensor
  int add_module(std::string path, int unit);
  int add_unit(std::string path, bool is_block);

  int unit_of(const Node& node) const {
    return modules[static_cast<std::size_t>(node.module)].unit;
  }
  const Tensor& tensor(int id) const { return tensors[static_cast<std::size_t>(id)]; }
};

// Returns whether the node runs when a step begins, and not in each micro-batch.
inline bool is_of_step(const Graph& graph, const Node& node) {
  return !node.outputs.empty() && graph.tensor(node.outputs[0]).role == Role::of_step;
}

// Verifies the topological order, one producer per tensor, and types as the table infers them. A
// broken rule is a bug of meshwright. Its message names `after`, the pass that made the graph.
void verify(const Graph& graph, std::string_view after);

std::int64_t parameter_count(const Graph& graph);  // unsplit, unpadded, tied counted once

// Returns the model FLOPs that MFU is computed from: one forward and backward pass of the
// micro-batch on this rank without recomputation. They are three times the forward matrix products,
// or twice for weights that are not trained. Attention is not halved for the mask.
double model_flops(const Graph& graph);

// Returns one line per node, for dumps and tests.
std::string to_text(const Graph& graph);

}  // namespace meshwright
