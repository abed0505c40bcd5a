// Writes the forward graph of a model, operation by operation: an embedding, the blocks, a final
// norm, a head and its loss. Attention is in build_attention.cpp, experts are in build_experts.cpp,
// and the rest is in build.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/architecture.h"
#include "models/program/graph/graph.h"

namespace meshwright::architectures {

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Training& training)
      : m_(model),
        training_(training),
        names_(info(model.architecture)),
        dtype_(storage_of(training.precision)) {
    graph_.vocabulary = model.vocabulary;
    graph_.micro_batch = training.micro_batch;
    // An image is a sequence of a fixed length, whatever the job's sequence length is.
    sequence_ = model.reads_images() ? model.positions : training.sequence_length;
    graph_.sequence_length = sequence_;
    graph_.precision = training.precision;
    graph_.compiler = training.compiler;
    rows_ = std::int64_t{training.micro_batch} * sequence_;
  }

  Graph build();

 private:
  // Names the axis of a matrix that tensor parallelism splits: its outputs, its inputs, or none
  // (`whole`).
  enum class Side : std::uint8_t { outputs, inputs, whole };

  struct Matrix {
    std::string path;
    std::int64_t in = 0, out = 0;
    Side side = Side::whole;
    bool bias = true;
    bool residual = false;                    // writes into the residual stream
    std::vector<std::int64_t> segments = {};  // parts of the outputs; empty: {out}
    bool weight_in_out = false;
    std::optional<PublishedPart> part = {};  // its rows in the published matrix `whole`
    std::string bias_name = {};              // name of the bias; empty: `path`.bias
  };

  Attributes attributes() const {
    Attributes a;
    a.micro_batch = training_.micro_batch;
    a.sequence_length = sequence_;
    return a;
  }

  int module(const std::string& path) {
    const auto [found, is_new] = modules_.try_emplace(path, 0);
    if (is_new) found->second = graph_.add_module(path, unit_);
    return found->second;
  }

  // Appends an operation and returns the tensor of its first output.
  int apply(Op op, const std::string& path, TensorIds inputs, const Attributes& a) {
    return graph_.output(graph_.add(op, module(path), inputs, a));
  }

  // Adds the documents tensor to the inputs of an operation that counts positions within documents.
  // Does nothing if the graph has no documents tensor.
  void tell_documents(TensorIds& inputs, Attributes& a) const {
    a.documents = graph_.documents >= 0;
    if (a.documents) inputs.push_back(graph_.documents);
  }

  int input(Shape shape) { return graph_.add_tensor({shape, Dtype::i32}, Role::input); }

  // Returns the tensor of the parameter of this name, and adds the parameter if it is new. Blocks
  // that share their parameters get the same tensor.
  int parameter(const std::string& name, Shape shape, Initial initial, Cut cut = {});

  // Returns the name under which a parameter is stored. If all blocks share their parameters, the
  // name begins with `shared_block` instead of the block's own path.
  std::string stored_name(const std::string& name) const;

  // Adds a parameter of shape `shape` that no tensor group splits. Files hold it in the shape
  // `published`, which has more dimensions. Returns its tensor.
  int published_as(const std::string& name, Shape published, Shape shape);
  int new_parameter(const std::string& name, Shape shape, Initial initial, Cut cut);

  // Adds the weight or the bias of a matrix. `name` is ".weight" or ".bias". Returns its tensor.
  int parameter_of(const Matrix& matrix, const std::string& name, Shape shape, Initial initial,
                   Cut cut);
  int linear(int x, const Matrix& matrix);
  Attributes norm_attributes() const;
  int norm_weight(const std::string& path, std::int64_t width, Cut cut = {});

  // Adds the weight of a layer norm that has none: ones that are not trained, and that no file has.
  int ones(const std::string& path, std::int64_t width);

  int norm(int x, const std::string& path);
  int gelu(int x, const std::string& path);
  int times(int x, const std::string& path, double factor);
  int scaled(int x, const std::string& path, double factor) {
    return factor == 1 ? x : times(x, path, factor);
  }

  // Appends cap * tanh(x / cap), or returns x if cap is 0. The multiplication by cap is appended
  // for a cap of 1 too: the gradient of the loss overwrites the logits that the loss reads, but the
  // gradient of tanh still needs the output of tanh.
  int capped(int x, const std::string& path, double cap);

  // Sets the dropout rate of an operation. The key of its random numbers follows from `path` and
  // the seed.
  void set_dropout(Attributes& a, const std::string& path) const;
  int dropout(int x, const std::string& module_path) { return dropout(x, module_path, sequence_); }

  // Appends dropout of `x`, which has `rows` rows for each sequence. Returns x if the job sets no
  // dropout.
  int dropout(int x, const std::string& module_path, int rows);

  // Appends the decoder with its embeddings and its final norm. Its blocks attend to all of
  // `encoded`, the encoder's output.
  int decoder(int encoded);

  // Appends the final norm of a stack, with dropout after it in encoder-decoder models. Returns x
  // if the architecture has no final norm.
  int final_norm(int x);

  // Returns a name of the table of architectures for the stack that is being built. In a decoder,
  // it begins with `decoder` instead of `encoder`.
  std::string in_stack(std::string_view name) const;
  int embeddings(int tokens);

  // Appends the embedding of an image: of its patches, the class token and the positions. The
  // convolution of a published model has a stride of its width, so it is a matmul with the patches.
  int image_embeddings();
  int positions(int x);
  // Appends the blocks of the stack.
  int blocks(int x);

  // Begins the unit of the block at `path`. Its window, rotary positions and experts are those of
  // the model's block number `index`.
  void enter_block(const std::string& path, int index, bool predicts_ahead);
  int block(int x);

  // Appends one depth of multi-token prediction (DeepSeek-V3, 2024, section 2.2). `x` is the output
  // of depth - 1, or of the model for depth 1. The depth also reads the tokens `depth` positions
  // ahead.
  int predict_ahead(int x, int depth);

  // Appends a norm of the block. An empty name means that the block has none.
  int norm_if(int x, std::string_view name) { return name.empty() ? x : norm(x, in_block(name)); }

  std::string in_block(std::string_view name) const { return prefix_ + std::string(name); }

  // Returns the path of a name of the MLP or of its norm in the current block. In a block of a
  // decoder it has another number, because attention comes twice before the MLP there.
  std::string of_mlp(std::string_view name) const;
  // The functions from here to the experts append attention (build_attention.cpp).
  int rope(int x, int heads, int kv_heads) { return rope(x, heads, kv_heads, m_.head_dim); }

  int rope(int x, int heads, int kv_heads, int head_dim);

  // Appends one matmul that makes all queries, keys and values, and their rotation. Returns their
  // one tensor.
  TensorIds packed_qkv(int x);
  int project(int x, const std::string& path, int heads);

  // Returns which rows of the published matrix are queries (`which` 0), keys (1) or values (2).
  // Returns nothing if each of the three is published as a matrix of its own.
  std::optional<PublishedPart> part_of_qkv(int which) const;
  int project_part(int x, std::string_view name, int which);

  // Appends the norm of queries or keys that comes before their rotation. Returns x if there is
  // none.
  int head_norm(int x, std::string_view name);

  // Appends the norm of queries or keys that comes after their rotation. Returns x if there is
  // none.
  int turned_norm(int x, std::string_view name);

  // Appends the scaling of queries, in a block without rotary positions or, with
  // `grows_from_floor`, in each. The factor grows with the position of the token
  // (Attributes::temperature). Returns x if the factor is 1 everywhere.
  int tempered(int x);
  TensorIds separate_qkv(int x);

  // Appends the RMSNorm of a latent vector. Its epsilon is 1e-6, because no config.json gives it.
  int latent_norm(int x, std::string_view name);

  // Names the rows of a published matrix that one parameter has: from each of `groups` groups of
  // `group_width` outputs, `width` outputs from `first` on.
  struct LatentPart {
    std::string_view whole, part;
    std::int64_t groups, group_width, first, width;
    Side side = Side::whole;
    bool bias = false;
  };

  int latent_part(int x, const LatentPart& each);

  // Appends the rotation of `turned` and joins the result to `other`, the part of each head that is
  // not rotated. `turned` has a part for each head (queries) or one for all heads (keys).
  int joined_heads(int other, int turned, int heads_of_turned);

  // Appends the queries, keys and values of latent attention (DeepSeek-V2, 2024, section 2.1).
  TensorIds latent_qkv(int x);
  int attention(int x);

  // Returns the table of relative positions that all blocks of a stack share.
  int relative_bias();

  // Appends attention of the decoder's queries to all of the encoder's output. Source and target
  // sequences have the same length.
  int cross_attention(int x);
  // Appends attention and its last matrix. `gate` is the tensor whose sigmoid multiplies what
  // attention makes; -1: there is none.
  int attention(const TensorIds& qkv, const std::string& path, const std::string& out_path,
                bool causal, int gate = -1);

  // Appends sigmoid(gate) * x, by tanh, because there is no operation for it.
  int gated(int x, int gate, const std::string& path);

  // Appends an RMSNorm inside a branch, whose columns tensor parallelism splits. Returns x if the
  // name is empty.
  int inner_norm(int x, std::string_view name);

  // Returns the attributes that all operations of experts share (build_experts.cpp).
  Attributes expert_attributes() const;
  struct ExpertMatrix {
    std::string_view name;
    std::int64_t in = 0, out = 0;
    Initial initial = Initial::normal;
  };
  std::string_view expert_suffix(bool is_bias) const;  // of the names of expert parameters
  int expert_parameter(const ExpertMatrix& matrix, bool is_bias);
  std::optional<PublishedPart> part_of_experts(const ExpertMatrix& matrix, bool is_bias) const;
  int expert_linear(int x, const ExpertMatrix& matrix);
  int shared_experts(int x);
  int experts(int x);

  // Adds the bias of the router's choices. It has no gradient: in transformers it is a buffer and
  // not a parameter.
  int choice_bias();

  // Appends a gated MLP of a model with experts: its shared experts, or the MLP of a block without
  // experts. Tensor parallelism does not split its matrices.
  int gated_mlp(int x, const std::string& path, std::int64_t width);
  int activation(int x, const std::string& path);
  int mlp(int x);

  // Appends the selection of the `count` positions of each sequence that the head at `path` sees.
  int chosen(int x, int count, std::string_view path);

  // Appends the selection of the predicted positions of a masked model, and the dense layer, GELU
  // and norm before its output matrix.
  int masked_transform(int x);
  // Appends the dense layer, GELU and norm before the output matrix.
  int head_transform(int x, bool bias);
  int logits(int x);
  int cross_entropy(int logits, int targets, double weight = 1);
  // Appends the head of a language model, a masked model or an image classifier, and its loss.
  // `ahead` holds the outputs of multi-token prediction, depth by depth, each of which adds a loss.
  void language_model_head(int x, const std::vector<int>& ahead);

  // Appends the head with two logits per token, and its loss. The logits tell whether the answer
  // starts there and whether it ends there.
  void question_answering_head(int x);

  // Appends the head that classifies a text by its first token (encoders) or its last token, and
  // its loss. Every rank computes all classes.
  void classification_head(int x);

  const Model& m_;
  const Training& training_;
  const ArchitectureInfo& names_;
  Dtype dtype_;
  Graph graph_;
  std::map<std::string, int> modules_;
  std::map<std::string, int> parameters_;  // tensor of each, by name
  int sequence_ = 0;
  std::int64_t rows_ = 0;
  std::string prefix_;  // path of the current block, and a dot: "transformer.h.3."
  int block_ = 0;       // number of the block whose traits the current block has
  int window_ = 0;      // width of its attention window, in tokens; 0: no window
  int chunk_ = 0;       // tokens of a chunk of its attention; 0: no chunks
  bool turns_ = true;   // whether the current block has rotary positions
  int counts_ = -1;     // tensor of the number of tokens of each expert, if dropless
  int unit_ = 0;
  int table_ = -1;               // tensor of the token table
  std::string_view stack_ = "";  // name of the decoder, once it is being built
  int encoded_ = -1;             // tensor of the encoder's output; -1: not in a decoder
};

}  // namespace meshwright::architectures
