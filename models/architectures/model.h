// Describes a model by sizes and settings, whether it was read from the zoo, a config.json of
// Hugging Face, meshwright's own JSON, an ONNX file or a captured model. build_graph() makes the
// graph of one micro-batch from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/activation.h"
#include "models/architectures/families/kinds.h"
#include "models/architectures/model_sizes.h"
#include "models/core/fields.h"
#include "models/program/graph/model_inputs.h"
#include "models/program/training.h"

namespace meshwright::program {
struct Graph;
}

namespace meshwright::architectures {

struct ImportedGraph;
struct CapturedModel;

enum class Family : std::uint8_t {
  gpt,
  llama,
  bert,
  mpt,
  bloom,
  gptj,
  gpt_neox,
  mixtral,
  seq2seq,
  vit
};
std::string_view name_of(Architecture architecture);  // the model_type of config.json

// Names what a model's head predicts. lm: the next token. mlm: masked tokens. qa: the start and the
// end of an answer. label: the class of an image or of a text (files call it `classification`).
enum class Head : std::uint8_t { lm, mlm, qa, label };

// The norm of queries and keys. Before the rotation, an RMSNorm normalizes all heads together
// (`rows`) or each head (`heads`). After the rotation, `heads_turned` normalizes each head, and
// `turned` does it without weights, in blocks that have a rotation.
enum class QueryKeyNorm : std::uint8_t { none, rows, heads, turned, heads_turned };

constexpr int most_classes = 1 << 16;  // two bytes of an image's record (exec/data/images.h)

// Holds settings that follow from a model's architecture unless a file sets them.
struct Traits {
  Family family = Family::gpt;
  Head head = Head::lm;
  bool tied_embeddings = true, gated_ffn = false, rms_norm = false, learned_positions = false;
  bool parallel_residual = false, alibi = false;
  bool rotary_interleaved = false;
  bool one_norm = false;           // attention and MLP of a block share it; GPT-J's always do
  bool one_plus_norms = false;     // norms multiply by 1 + their weight (Gemma)
  bool biases = true;              // of the MLP's matrices
  bool norm_bias = true;           // of layer norms
  bool attention_bias = true;      // of the matrices of queries, keys and values
  bool attention_out_bias = true;  // of attention's last matrix
  Activation activation = Activation::gelu;  // of the MLP; of its gate if it has one
  bool activation_dropout = false;           // dropout after the activation: T5, BART if set
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  double norm_epsilon = 1e-5;
  int head_dim = 0;  // in an architecture's row: the width if a file has no `head_dim`; 0: by sizes
  double rotary_base = 10000;
  int token_types = 0;      // BERT: 2; DistilBERT: 0
  int position_offset = 0;  // first row of the position table; RoBERTa: 2
  int decoder_start = 0;    // seq2seq: the token that a decoder reads first
  // These are the sizes of the table that each stack of T5 has (models/program/graph/relative.h).
  // There is no table if `relative_buckets` is 0.
  int relative_buckets = 0, relative_distance = 0;
  // Blocks whose number mod `local_period` is `global_place` have no window (Model::local_window).
  int local_period = 1, global_place = -1;
  bool attention_sinks = false;  // every head has a score of its own in each softmax
  int experts = 0;               // number in every block but dense_blocks; 0: none
  int experts_per_token = 0;
  double router_aux_loss_coef = 0;  // factor of the balancing loss
  bool shared_gate = false;     // a sigmoid gate of the token multiplies the shared MLP's output
  bool sigmoid_scores = false;  // see models/program/graph/experts.h, also for groups_by_two
  bool expert_bias = false;     // the router has a bias that only affects the choice
  bool router_bias = false, expert_biases = false;  // of the router's logits, of experts' matrices
  bool groups_by_two = false;
  bool expert_weights_of_all = false;  // weights are shares among all experts
  bool weighed_inputs = false;         // weights multiply what experts read, not what they make
  bool operator==(const Traits&) const = default;
};

struct Model : Traits {
  std::string name;  // for logs
  Architecture architecture = Architecture::gpt2;
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, positions = 0;
  int embedding = 0;            // width of the token table and of the head; 0: hidden
  std::int64_t vocabulary = 0;  // for images: the number of classes
  int classes = 0;              // number of classes of a text (head label)
  int pad_token = -1;           // token that fills a row after a text (head label); -1: none
  int image_size = 0, patch_size = 0, channels = 0;  // of square images; 0: the model reads tokens
  // Most of the fields from here on are not keys of meshwright's own model JSON. They follow from
  // the family and the sizes, unless a config.json sets them.
  int rotary_dim = 0;
  // These scale rotary positions for longer texts (models/program/graph/rotary.h).
  double rotary_factor = 1, rotary_low = 1, rotary_high = 4;
  int rotary_original = 0;
  bool rotary_yarn = false, rotary_truncate = true;
  double score_factor = 1;  // factor of attention's scores, such as YaRN's temperature
  double embedding_scale = 1, logit_scale = 1;
  double residual_scale = 1;  // factor of what attention and MLP add to the residual stream
  double swiglu_limit =
      0;                // of a clamped gate and what it multiplies (Op::clamped_swiglu); 0: none
  int score_width = 0;  // scores are divided by its square root; 0: head_dim
  double score_cap = 0, logit_cap = 0;  // tanh bounds scores and logits to these; 0: unbounded
  // Blocks from `local_from` on see only the last `local_window` tokens, including their own,
  // except for those whose number mod `local_period` is `global_place`, and those from `local_to`
  // on, unless it is 0. If `local_window` is 0, no block has a window.
  int local_window = 0, local_from = 0, local_to = 0;
  double local_rotary_base = 0;  // of blocks with a window, without scaling; 0: rotary_base
  // These are the indices of the blocks without rotary positions, ascending. In the other blocks,
  // tokens see only their own chunk of `attention_chunk` positions, unless it is 0.
  std::vector<int> unrotated_blocks;
  int attention_chunk = 0;
  // These scale queries in blocks without rotary positions (Attributes::temperature,
  // temperature_floor). If `temperature` is 0, queries are not scaled.
  double temperature = 0;
  int temperature_floor = 1;
  // These are widths of multi-head latent attention. Keys and values are computed from vectors of
  // width kv_lora_rank (0: the model has no latent attention), and queries from vectors of width
  // q_lora_rank (0: from the hidden state). The last rotary_dim elements of a head are rotated.
  int q_lora_rank = 0, kv_lora_rank = 0, v_head_dim = 0;
  int dense_ffn = 0;              // width of the MLP of blocks without experts
  std::vector<int> dense_blocks;  // those blocks, ascending; the others have experts
  int shared_ffn = 0;             // width of the MLP that all tokens go through; 0: none
  bool shared_mean = false;       // it and the chosen experts are averaged, not added
  // models/program/graph/experts.h describes these fields and the following ones.
  int expert_groups = 1, groups_per_token = 1;
  double expert_weight_scale = 1;
  bool expert_dropless = false;
  double expert_rank_capacity_factor = 0;
  // This factor is assumed for published steps which do not give it. It is that of
  // Megatron-Bridge's recipes for a rank's experts (github NVIDIA-NeMo/Megatron-Bridge @067f987d,
  // MXFP8).
  static constexpr double usual_rank_capacity_factor = 1.5;
  bool expert_overflow_drops = false;
  double expert_capacity_factor = 0;  // 0: an expert has no capacity
  // Has the graph of a model from an ONNX file (onnx/imported_graph.h), otherwise null. If it is
  // set, `architecture` has no meaning, and the fields above do not say what the model computes.
  // They have the sizes that rules about plans need.
  std::shared_ptr<const ImportedGraph> imported;
  // Has the segments of a model that was captured from PyTorch (captured/captured_model.h),
  // otherwise null. If it is set, `architecture` has no meaning either.
  std::shared_ptr<const CapturedModel> captured;

  bool reads_images() const { return image_size > 0; }
  std::int64_t pixels() const { return std::int64_t{channels} * image_size * image_size; }
  bool classifies_text() const { return head == Head::label && !reads_images(); }
  bool has_decoder() const { return family == Family::seq2seq; }
  bool is_causal() const {
    return family != Family::bert && family != Family::vit && !has_decoder();
  }
  // Returns whether attention hides padding. Without a causal mask, the tokens of a text would see
  // the padding that fills its row.
  bool hides_padding() const { return classifies_text() && !is_causal(); }
  int embedding_width() const { return embedding > 0 ? embedding : hidden; }
  bool shares_layers() const;  // all blocks have the same parameters
  // Returns whether the model was captured, so that its graph cannot have more or fewer blocks.
  bool is_fixed() const { return captured != nullptr; }
  int window_of(int block) const {
    const bool outside = block < local_from || (local_to > 0 && block >= local_to);
    return outside || block % local_period == global_place ? 0 : local_window;
  }
  bool has_rotary(int block) const {
    return rotary_dim > 0 && !std::ranges::binary_search(unrotated_blocks, block);
  }
  bool has_experts(int block) const {
    return experts > 0 && !std::ranges::binary_search(dense_blocks, block);
  }
  ModelSizes sizes() const;
  ModelInputs inputs() const;
  bool operator==(const Model&) const = default;
};

std::string zoo_folder();  // the folder models/zoo, a part of the program

// Loads a model. `ref` is a name of the zoo, a name on the Hub of such a model, or a path relative
// to `folder`: of a config.json, of meshwright's own model JSON, of a captured model, of a folder
// with a config.json, or of an ONNX file. Throws InputError, which names near models if there are
// any, if `ref` is unknown.
Model load_model(const std::string& ref, const std::string& folder,
                 const std::string& zoo = zoo_folder());
Model read_model(Fields fields);        // meshwright's own JSON, also inside a job file
Model read_huggingface(Fields fields);  // a config.json
std::vector<std::string> zoo_names(const std::string& zoo = zoo_folder());
bool is_zoo_name(const std::string& ref, const std::string& zoo = zoo_folder());

// Returns the forward graph of one micro-batch, as one rank without any parallelism computes it.
// Its types and attributes follow from the training's precision, attention, compiler, micro_batch,
// sequence_length and predicted_positions, among others. If predicted_positions is 0, a masked
// model predicts 15 % of the positions, as BERT does.
Graph build_graph(const Model& model, const Training& training);

}  // namespace meshwright::architectures
