// A model as sizes and settings, whether it was read from the zoo, a config.json of Hugging Face,
// meshwright's own JSON or an ONNX file. build_graph() makes the graph of one micro-batch from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/model_sizes.h"
#include "models/core/fields.h"
#include "models/program/graph/model_inputs.h"
#include "models/program/training.h"

namespace meshwright {

struct Graph;
struct ImportedGraph;

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
// The architecture decides how Hugging Face names the parameters (architecture.h).
enum class Architecture : std::uint8_t {
  gpt2,
  llama,
  mixtral,
  bert,
  roberta,
  distilbert,
  albert,
  vit,
  bart,
  t5,
  mpt,
  bloom,
  gpt_neo,
  gptj,
  gpt_neox,
  qwen2,
  starcoder2,
  stablelm,
  opt,
  phi3,
  gemma,
  gemma2,
  olmo2,
  qwen3,
  qwen3_moe,
  olmoe,
  nemotron,
  falcon,            // one norm in a block, or two, one after the other
  falcon_two_norms,  // two norms, both of the block's input
  gpt_bigcode,
  cohere,
  internlm2,
  glm4_moe,
  deepseek_v2,
  deepseek_v3,
  qwen2_moe,
  granitemoe,
  gpt_oss,
  gemma3_text,
  llama4_text,
  count_
};
std::string_view name_of(Architecture architecture);  // the model_type of config.json

// The output of a model. lm: the next token. mlm: masked tokens. qa: the start and the end of an
// answer. label: the class of an image or of a text (files call it `classification`).
enum class Head : std::uint8_t { lm, mlm, qa, label };

// The norm of queries and keys. Before the rotation, an RMSNorm normalizes all heads together
// (`rows`) or each head (`heads`). `turned` normalizes each head after the rotation and without
// weights, in blocks that have a rotation.
enum class QueryKeyNorm : std::uint8_t { none, rows, heads, turned };

constexpr int most_classes = 1 << 16;  // two bytes of an image's record (exec/data/images.h)

struct Model {
  std::string name;  // for logs
  Family family = Family::gpt;
  Architecture architecture = Architecture::gpt2;
  Head head = Head::lm;
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, positions = 0;
  int embedding = 0;            // width of the token table and of the head; 0: hidden
  std::int64_t vocabulary = 0;  // for images: the number of classes
  int classes = 0;              // number of classes of a text (head label)
  int pad_token = -1;           // after a text (head label); -1: none
  int decoder_start = 0;        // seq2seq: the token that a decoder reads first
  int image_size = 0, patch_size = 0, channels = 0;  // of square images; 0: the model reads tokens
  bool gated_ffn = false;
  // Activations. gated_gelu replaces silu in a gated MLP (T5 v1.1). relu and squared_relu replace
  // gelu in an MLP without a gate (T5, Nemotron).
  bool gated_gelu = false, relu = false, squared_relu = false;
  bool activation_dropout = false;  // dropout after the activation: T5, BART if set
  bool tied_embeddings = true;
  // The fields from here on are mostly not keys of meshwright's own model JSON, except for those of
  // experts: they follow from the family and the sizes, unless a config.json sets them.
  int head_dim = 0;
  bool rms_norm = false, learned_positions = true, parallel_residual = false, alibi = false;
  bool one_norm = false;           // attention and MLP of a block share it; GPT-J's always do
  bool biases = true;              // of the MLP's matrices
  bool norm_bias = true;           // of layer norms
  bool attention_bias = true;      // of the matrices of queries, keys and values
  bool attention_out_bias = true;  // of attention's last matrix
  bool gelu_tanh = true;
  double norm_epsilon = 1e-5, rotary_base = 10000;
  int rotary_dim = 0;
  bool rotary_interleaved = false;
  // Scaling of rotary positions for longer texts (models/program/graph/rotary.h).
  double rotary_factor = 1, rotary_low = 1, rotary_high = 4;
  int rotary_original = 0;
  bool rotary_yarn = false, rotary_truncate = true;
  double score_factor = 1;  // factor of attention's scores, such as YaRN's temperature
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool one_plus_norms = false;  // norms multiply by 1 + their weight (Gemma)
  double embedding_scale = 1, logit_scale = 1;
  double residual_scale = 1;  // factor of what attention and MLP add to the residual stream
  double swiglu_limit =
      0;  // of a clamped gate and what it multiplies (Op::clamped_swiglu); 0: none
  bool attention_sinks = false;         // every head has a score of its own in each softmax
  int score_width = 0;                  // scores are divided by its square root; 0: head_dim
  double score_cap = 0, logit_cap = 0;  // tanh bounds scores and logits to these; 0: unbounded
  int token_types = 0;                  // BERT: 2; DistilBERT: 0
  int position_offset = 0;              // RoBERTa: 2
  // Sizes of the table that each stack of T5 has (models/program/graph/relative.h). There is no
  // table if `relative_buckets` is 0.
  int relative_buckets = 0, relative_distance = 0;
  // Blocks from `local_from` on see only `local_window` tokens back, including their own, except
  // for those whose number mod `local_period` is `global_place`. If `local_window` is 0, all blocks
  // see all tokens.
  int local_window = 0;
  int local_from = 0, local_period = 1, global_place = -1;
  double local_rotary_base = 0;  // of these blocks, without scaling; 0: rotary_base
  // Indices of the blocks without rotary positions, ascending. In the other blocks, tokens see only
  // their own chunk of `attention_chunk` positions, or all earlier tokens if it is 0.
  std::vector<int> unrotated_blocks;
  int attention_chunk = 0;
  // The scaling of queries in blocks without rotary positions (Attributes::temperature,
  // temperature_floor). If `temperature` is 0, they are not scaled.
  double temperature = 0;
  int temperature_floor = 1;
  int experts = 0;  // of every block but dense_blocks; 0: none
  int experts_per_token = 0;
  // Widths of multi-head latent attention. Keys and values are computed from vectors of width
  // kv_lora_rank (0: the model has no latent attention), and queries from vectors of width
  // q_lora_rank (0: from the hidden state). The last rotary_dim elements of a head are rotated.
  int q_lora_rank = 0, kv_lora_rank = 0, v_head_dim = 0;
  int dense_ffn = 0;              // width of the MLP of blocks without experts
  std::vector<int> dense_blocks;  // those blocks, ascending; the others have experts
  int shared_ffn = 0;             // width of the MLP that all tokens go through; 0: none
  bool shared_gate = false;       // a sigmoid gate of the token multiplies its output
  bool sigmoid_scores = false;    // models/program/graph/experts.h, as those below
  bool expert_bias = false;       // a bias for the choice only
  bool router_bias = false, expert_biases = false;  // of the router's logits, of experts' matrices
  int expert_groups = 1, groups_per_token = 1;
  bool groups_by_two = false;
  double expert_weight_scale = 1;
  bool expert_weights_of_all = false;  // shares of all experts, not of those that were chosen
  bool weighed_inputs = false;         // weights multiply what experts read, not what they make
  bool expert_dropless = false;        // models/program/graph/experts.h, as those below
  double expert_rank_capacity_factor = 0;
  bool expert_overflow_drops = false;
  double expert_capacity_factor = 0;  // models/program/graph/experts.h; 0: nothing is dropped
  double router_aux_loss_coef = 0;    // of the balancing loss, a mean over blocks and sequences
  // The graph of a model from an ONNX file (onnx/imported_graph.h), otherwise null. If it is set,
  // `architecture` has no meaning, and the fields above are only the sizes that rules about plans
  // need.
  std::shared_ptr<const ImportedGraph> imported;

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
  int window_of(int block) const {
    return block < local_from || block % local_period == global_place ? 0 : local_window;
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

// Loads a model. `ref` is a zoo name, or a path relative to `folder`: of a config.json, of
// meshwright's own model JSON, of a folder with a config.json, or of an ONNX file. Throws an
// InputError that names the nearest zoo name if `ref` is unknown.
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

}  // namespace meshwright
