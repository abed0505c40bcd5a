// Defines the graph of the computation that is trained: typed operations in topological order, for
// one micro-batch of one model replica, on one rank of its tensor group. Passes
// (models/compiler/passes) turn the forward graph of the whole model into the split, differentiated
// graph that models/compiler/lower cuts into Programs.
#pragma once

#include <algorithm>
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

namespace meshwright::program {

// A list of tensor ids. Up to eight, as nearly all nodes have, are stored inline.
class TensorIds {
 public:
  TensorIds() = default;
  TensorIds(std::initializer_list<int> list) {
    for (int id : list) push_back(id);
  }
  void push_back(int id) {
    if (size_ < inline_size) {
      ids_[size_++] = id;
      return;
    }
    if (more_.empty()) more_.assign(ids_.begin(), ids_.end());
    more_.push_back(id);
    ++size_;
  }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](int i) const { return begin()[i]; }
  int& operator[](int i) { return begin()[i]; }
  bool operator==(const TensorIds& other) const { return std::ranges::equal(*this, other); }
  const int* begin() const { return more_.empty() ? ids_.data() : more_.data(); }
  const int* end() const { return begin() + size_; }
  int* begin() { return more_.empty() ? ids_.data() : more_.data(); }
  int* end() { return begin() + size_; }

 private:
  static constexpr int inline_size = 8;
  std::array<int, inline_size> ids_{};
  int size_ = 0;
  std::vector<int> more_;  // all ids, if there are more
};

// Says how tensor parallelism cuts a parameter: along `dim`, each segment is cut into T contiguous
// parts, of which rank t holds the t-th. GPT-2's fused q|k|v has three segments. dim < 0 means that
// every rank holds the whole parameter.
struct Cut {
  int dim = -1;
  std::vector<std::int64_t> segments;  // sizes along dim, of the padded tensor
  bool operator==(const Cut&) const = default;
};

enum class Initial : std::uint8_t {
  normal,           // standard deviation 0.02
  residual_normal,  // standard deviation 0.02 / sqrt(2 * layers)
  ones,
  zeros,
  kaiming_uniform  // uniform within 1 / sqrt(inputs), as torch.nn.Linear
};

struct Parameter {
  std::string name;    // as in published models, mostly Hugging Face's spelling
  Shape global_shape;  // as published: unsplit, unpadded (a convolution's weight in 4 dimensions)
  Shape padded_shape;  // unsplit, with a padded vocabulary, and a convolution's weight as a matrix
  Shape shape;         // as this rank holds it
  Dtype dtype = Dtype::f32;
  Cut cut;                            // how T > 1 ranks would cut it; {}: never cut
  bool is_cut = false;                // shape is 1/T of padded_shape along cut.dim
  bool of_experts = false;            // shape [E, ...]; experts.h explains its name
  bool is_cut_by_experts = false;     // shape has only the experts of one rank
  std::optional<PublishedPart> part;  // its part of a published tensor; unset: all of it
  Initial initial = Initial::normal;
  bool decay = true;  // weight decay: matrices only
  bool partial_over_tensor =
      false;              // ranks use it on shares of the rows, so their gradients must be summed
  bool trainable = true;  // false: it has no gradient and no optimizer states
  bool counted = true;    // counts as a parameter of its own (false for a persistent buffer)
  int tensor = -1;        // its tensor in the graph
  int gradient = -1;      // the tensor of its gradient; -1 before the pass `backward`, or if frozen
  bool operator==(const Parameter&) const = default;
};

enum class Role : std::uint8_t {
  activation,
  input,
  parameter,
  parameter_gradient,
  of_step,  // made of parameters once a step, for all its micro-batches
  largest,  // f32 [2], kept between steps: the largest element that earlier steps rounded, and that
            // this step rounded so far (Graph::rounded)
  // For a parameter whose shards are rounded when a step begins: its rounded elements as they are
  // gathered, and their scale, f32 [1,1], by which they are multiplied.
  gathered_bits,
  gathered_scale
};
enum class Phase : std::uint8_t { forward, recompute, backward };

struct Tensor {
  TensorType type;
  Role role = Role::activation;
  int producer = -1;   // index of the node that makes it; -1: no node does
  int parameter = -1;  // index into Graph::parameters
  int alias_of = -1;   // tensor whose memory an in-place output shares; -1: none
};

// Returns whether the tensor is a parameter, or its rounded elements.
constexpr bool is_weight(const Tensor& tensor) {
  return tensor.role == Role::parameter || tensor.role == Role::gathered_bits;
}
// Returns whether a node makes this output of its own. If not, the output is a parameter gradient,
// to which the node adds.
constexpr bool is_made(const Tensor& output) { return output.role != Role::parameter_gradient; }

struct Node {
  Op op;
  Phase phase = Phase::forward;
  int module = 0;  // index into Graph::modules
  TensorIds inputs;
  TensorIds outputs;
  Attributes attributes;
};

// A module of the model that has operations, such as `transformer.h.3.mlp.c_fc`. `unit` is the unit
// that it belongs to: a link of the chain from which stages are cut, such as an embedding, a block
// or the head.
struct Module {
  std::string path;
  int unit = 0;
};

struct Unit {
  std::string path;       // `transformer.h.3`
  bool is_block = false;  // one of the repeated layers, by which recomputation and sharding work
  // Whether it is a block of multi-token prediction. Such a block follows the repeated layers and
  // is always on the stage of the next unit.
  bool predicts_ahead = false;

  bool holds_layer() const { return is_block || predicts_ahead; }
};

// A tensor that is rounded to 8 bits with a scale from its largest elements in earlier steps. The
// name of the tensor does not depend on how the model is distributed.
struct RoundedTensor {
  std::string name;  // `model.layers.3.mlp.down_proj.weight`, or with ` input` or ` gradient` added
  int largest = -1;  // its tensor of role `largest`
};

// Multi-token prediction: the inputs, targets and loss of the block of one depth. Each depth is one
// token further on than the depth before it. The main model has depth 0.
struct TokenAhead {
  int tokens = -1;   // i32 [rows]: the token `depth` after each; 0 if there is none
  int targets = -1;  // i32 [rows]: the token after that, or ignored_target
  int loss = -1;     // f32 [rows]
};

// Says which share of the activations between modules a rank of the tensor group holds.
enum class Held : std::uint8_t {
  whole,   // all of them, and so does every other rank
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
  int decoder_tokens = -1;  // i32 [rows]: tokens that a decoder reads (seq2seq)
  int documents = -1;       // i32 [rows]: where each token's document begins (documents.h)
  // If ranks exchange heads: the documents tensor for all tokens of the heads that this rank has.
  // -1 otherwise.
  int exchanged_documents = -1;
  int loss = -1;                  // f32 [targets]
  std::vector<int> captured;      // inputs of a captured model, in its order
  std::vector<TokenAhead> ahead;  // of depth 1, 2, ...
  std::int64_t vocabulary = 0;    // unpadded

  int micro_batch = 1;
  int sequence_length = 1;  // tokens of a sequence that one rank holds
  int tensor_degree = 1;
  int context_degree = 1;
  Held held = Held::whole;
  // Number of parts into which the ranks of a tensor group divide the micro-batch's sequences, if
  // each reads its own part. Every rank reads all of `documents`.
  int input_parts = 1;
  Precision precision = Precision::fp32;
  CompilerLevel compiler = CompilerLevel::fused;

  // Appends a node and returns its index. Its output tensors get the types that the table of
  // operations infers.
  int add(Op op, int module, TensorIds inputs, const Attributes& attributes,
          Phase phase = Phase::forward);
  // Appends a node of the backward phase and returns its index. After its inferred outputs come the
  // `accumulated` parameter gradients, to which it adds.
  int add_gradient(Op op, int module, TensorIds inputs, TensorIds accumulated,
                   const Attributes& attributes);
  int output(int node, int i = 0) const { return nodes[node].outputs[i]; }
  int add_tensor(TensorType type, Role role, int producer = -1);
  int add_parameter(Parameter parameter);  // also makes its tensor, whose id it returns
  int add_module(std::string path, int unit);
  int add_unit(std::string path, bool is_block);

  int unit_of(const Node& node) const { return modules[node.module].unit; }
  const Tensor& tensor(int id) const { return tensors[id]; }
};

// Returns whether the node runs once, at the beginning of a step, instead of in each micro-batch.
inline bool is_of_step(const Graph& graph, const Node& node) {
  return !node.outputs.empty() && graph.tensor(node.outputs[0]).role == Role::of_step;
}

// Verifies the topological order, one producer per tensor, and the types that the table infers. A
// broken rule is a bug of meshwright, so it aborts with a message that names `after`, the pass that
// made the graph.
void verify(const Graph& graph, std::string_view after);

std::int64_t parameter_count(const Graph& graph);  // unsplit, unpadded; tied count once

// Returns the model FLOPs that MFU is computed from: one forward and backward pass of the
// micro-batch on this rank, without recomputation. Each matmul of the forward pass counts three
// times, or twice if its weight is not trained. For segments of captured models, the FLOPs of both
// passes are known. Attention is not halved for the mask.
double model_flops(const Graph& graph);

// Returns one line per node, for dumps and tests.
std::string to_text(const Graph& graph);

}  // namespace meshwright::program
