// How the forward graph of a model is written, operation by operation: an embedding, the blocks, a
// final norm, a head and its loss. Parts: build_attention.cpp, build_experts.cpp; the rest
// build.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/architecture.h"
#include "models/program/graph/graph.h"

namespace meshwright {

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Training& training)
      : m_(model),
        training_(training),
        names_(info(model.architecture)),
        dtype_(storage_of(training.precision)) {
    graph_.vocabulary = model.vocabulary;
    graph_.micro_batch = training.micro_batch;
    // An image has a length of its own.
    sequence_ = model.reads_images() ? model.positions : training.sequence_length;
    graph_.sequence_length = sequence_;
    graph_.precision = training.precision;
    graph_.compiler = training.compiler;
    rows_ = std::int64_t{training.micro_batch} * sequence_;
  }

  Graph build();

 private:
  // The axis along which tensor parallelism splits a matrix: that of its outputs, that of its
  // inputs, or none.
  enum class Side : std::uint8_t { outputs, inputs, whole };

  struct Matrix {
    std::string path;
    std::int64_t in = 0, out = 0;
    Side side = Side::whole;
    bool bias = true;
    bool residual = false;                    // writes into the residual stream
    std::vector<std::int64_t> segments = {};  // of the outputs; {out} when not given
    bool weight_in_out = false;
    std::optional<PublishedPart> part = {};  // `whole`: a path
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

  // Appends an operation of one output that matters; returns that output.
  int apply(Op op, const std::string& path, TensorIds inputs, const Attributes& a) {
    return graph_.output(graph_.add(op, module(path), inputs, a));
  }

  // Adds the documents tensor to the inputs of an operation that counts positions in documents, if
  // rows hold several documents.
  void tell_documents(TensorIds& inputs, Attributes& a) const {
    a.documents = graph_.documents >= 0;
    if (a.documents) inputs.push_back(graph_.documents);
  }

  int input(Shape shape) { return graph_.add_tensor({shape, Dtype::i32}, Role::input); }

  // Returns the parameter of this name. The first of the blocks that share a parameter makes it.
  int parameter(const std::string& name, Shape shape, Initial initial, Cut cut = {});

  // Returns the name under which a parameter is stored. If all blocks share their parameters, it
  // has no block number.
  std::string stored_name(const std::string& name) const;

  // Adds an undivided parameter that was published with more dimensions.
  int published_as(const std::string& name, Shape published, Shape shape);
  int new_parameter(const std::string& name, Shape shape, Initial initial, Cut cut);

  // Adds a parameter of the matrix, its weight or its bias.
  int parameter_of(const Matrix& matrix, const std::string& name, Shape shape, Initial initial,
                   Cut cut);
  int linear(int x, const Matrix& matrix);
  Attributes norm_attributes() const;
  int norm_weight(const std::string& path, std::int64_t width, Cut cut = {});

  int norm(int x, const std::string& path);
  int gelu(int x, const std::string& path);
  int times(int x, const std::string& path, double factor);
  int scaled(int x, const std::string& path, double factor) {
    return factor == 1 ? x : times(x, path, factor);
  }

  // Returns cap * tanh(x / cap), or x if cap is 0. The last product is there for a cap of 1 too,
  // because the loss's gradient takes the place of what the loss reads, while the gradient of tanh
  // reads what tanh made.
  int capped(int x, const std::string& path, double cap);

  // Sets the dropout of the probabilities or activations of the module at `path`.
  void set_dropout(Attributes& a, const std::string& path) const;
  int dropout(int x, const std::string& module_path) { return dropout(x, module_path, sequence_); }

  // Appends dropout of a tensor that has `rows` rows for each sequence.
  int dropout(int x, const std::string& module_path, int rows);

  // Appends the decoder, whose blocks attend to all of the encoder's output.
  int decoder(int encoded);

  // Appends the final norm of a stack.
  int final_norm(int x);

  // Returns a name of the table, in the stack that is being built.
  std::string in_stack(std::string_view name) const;
  int embeddings(int tokens);

  // Appends the embedding of patches. A convolution whose stride is its width is a product with the
  // patches.
  int image_embeddings();
  int positions(int x);
  // Appends the blocks of the stack.
  int blocks(int x);

  // Begins the unit of the block at `path`, which is of the kind of the model's `index`-th.
  void enter_block(const std::string& path, int index, bool predicts_ahead);
  int block(int x);

  // Appends one depth of multi-token prediction, from the output of depth - 1 (0: the model) and
  // the tokens `depth` further on. DeepSeek-V3, 2024, section 2.2.
  int predict_ahead(int x, int depth);

  // Appends a norm of the block. An empty name means that the block has none.
  int norm_if(int x, std::string_view name) { return name.empty() ? x : norm(x, in_block(name)); }

  std::string in_block(std::string_view name) const { return prefix_ + std::string(name); }

  // Returns a name around the MLP. In a decoder's block, the MLP has another position, because
  // attention comes before it twice.
  std::string of_mlp(std::string_view name) const;
  // Attention (build_attention.cpp).
  int rope(int x, int heads, int kv_heads) { return rope(x, heads, kv_heads, m_.head_dim); }

  int rope(int x, int heads, int kv_heads, int head_dim);

  // Appends one projection of the input to all queries, keys and values.
  TensorIds packed_qkv(int x);
  int project(int x, const std::string& path, int heads);

  // Returns the rows of queries (0), keys (1) or values (2) if they are published as one matrix.
  std::optional<PublishedPart> part_of_qkv(int which) const;
  int project_part(int x, std::string_view name, int which);

  // Appends the norm of queries or keys.
  int head_norm(int x, std::string_view name);

  // Appends the norm of queries or keys in models that rotate them before the norm.
  int turned_norm(int x, std::string_view name);

  // Scales queries that have no rotary positions. The factor grows with the position.
  int tempered(int x);
  TensorIds separate_qkv(int x);

  // Appends an RMSNorm whose epsilon no config.json gives.
  int latent_norm(int x, std::string_view name);

  // A part of a published matrix: from each of `groups` groups of outputs, `width` outputs from
  // `first` on.
  struct LatentPart {
    std::string_view whole, part;
    std::int64_t groups, group_width, first, width;
    Side side = Side::whole;
    bool bias = false;
  };

  int latent_part(int x, const LatentPart& each);

  // Rotates `turned` and joins it to `other`, the part of each head that is not rotated. `turned`
  // has a part for each head (queries) or one for all heads (keys).
  int joined_heads(int other, int turned, int heads_of_turned);

  // Appends the queries, keys and values of latent attention. DeepSeek-V2, 2024, section 2.1.
  TensorIds latent_qkv(int x);
  int attention(int x);

  // Returns the table of relative positions that all blocks of a stack share.
  int relative_bias();

  // Appends attention with queries of the decoder, and keys and values of the encoder's output, all
  // of which they see. Source and target are equally long.
  int cross_attention(int x);
  int attention(const TensorIds& qkv, const std::string& path, const std::string& out_path,
                bool causal);

  // Experts (build_experts.cpp): attributes of all their operations.
  Attributes expert_attributes() const;
  struct ExpertMatrix {
    std::string_view name;
    std::int64_t in = 0, out = 0;
    Initial initial = Initial::normal;
  };
  std::string_view expert_suffix(bool is_bias) const;  // of the names of their parameters
  int expert_parameter(const ExpertMatrix& matrix, bool is_bias);
  std::optional<PublishedPart> part_of_experts(const ExpertMatrix& matrix, bool is_bias) const;
  int expert_linear(int x, const ExpertMatrix& matrix);
  int shared_experts(int x);
  int experts(int x);

  // Adds the bias of the router's choices. It has no gradient: in transformers it is a buffer and
  // not a parameter.
  int choice_bias();

  // Appends a gated MLP. It is not split, because a model with experts has no tensor degree.
  int gated_mlp(int x, const std::string& path, std::int64_t width);
  int activation(int x, const std::string& path);
  int mlp(int x);

  // Selects the `count` positions of each sequence that the head at `path` sees.
  int chosen(int x, int count, std::string_view path);

  // Appends the transform before a masked model's decoder, for the predicted positions only.
  int masked_transform(int x);
  int logits(int x);
  int cross_entropy(int logits, int targets, double weight = 1);
  // Appends a language model's head. `ahead` holds the outputs of multi-token prediction, depth by
  // depth.
  void language_model_head(int x, const std::vector<int>& ahead);

  // Appends the head with two logits per token: that the answer starts there, and that it ends
  // there.
  void question_answering_head(int x);

  // Appends the head that classifies a text by its first token (encoders) or its last token. Every
  // rank computes all classes.
  void classification_head(int x);

  const Model& m_;
  const Training& training_;
  const ArchitectureInfo& names_;
  Dtype dtype_;
  Graph graph_;
  std::map<std::string, int> modules_;
  std::map<std::string, int> parameters_;  // their tensors
  int sequence_ = 0;
  std::int64_t rows_ = 0;
  std::string prefix_;  // of the block that is being built: "transformer.h.3."
  int block_ = 0;       // its place in the stack
  int window_ = 0;      // of this block's attention
  int chunk_ = 0;       // the same
  bool turns_ = true;   // this block has rotary positions
  int counts_ = -1;     // the rows of this block's experts
  int unit_ = 0;
  int table_ = -1;               // the token table
  std::string_view stack_ = "";  // the decoder, once it is being built
  int encoded_ = -1;             // the encoder's output, which it reads
};

}  // namespace meshwright
