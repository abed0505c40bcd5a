// A model as numbers and words, wherever it came from: a zoo name, a Hugging Face config.json, our
// JSON. From it the graph of one micro-batch is built.
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
// How Hugging Face names the parameters (architecture.h).
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
  falcon,            // of one norm in a block, or of two that follow each other
  falcon_two_norms,  // both of the block's input
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
std::string_view name_of(Architecture architecture);  // as config.json has it

// label: one of some classes, of an image or of a text (`classification`).
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
  std::int64_t vocabulary = 0;  // of images: classes
  int classes = 0;              // of texts, head label
  int pad_token = -1;           // the same: what transformers looks for behind a text; -1: none
  int decoder_start = 0;        // seq2seq: the token that a decoder reads first
  int image_size = 0, patch_size = 0, channels = 0;  // of square images; 0: the model reads tokens
  bool gated_ffn = false;
  // Activations: gated_gelu takes the place of silu in a gated MLP (T5 v1.1), the others take that
  // of gelu in an MLP without a gate (T5).
  bool gated_gelu = false, relu = false, squared_relu = false;
  bool activation_dropout = false;  // between the activation and its product: T5, BART where asked
  bool tied_embeddings = true;
  // The fields from here on follow from the family unless a config.json sets them.
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
  double score_factor = 1;  // of attention's scores; YaRN's temperature
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool one_plus_norms = false;  // norms multiply by 1 + their weight (Gemma)
  double embedding_scale = 1, logit_scale = 1;
  double residual_scale = 1;  // of what branches add
  double swiglu_limit =
      0;  // of a clamped gate and what it multiplies (Op::clamped_swiglu); 0: none
  bool attention_sinks = false;         // every head has a score of its own in each softmax
  int score_width = 0;                  // whose root scores are divided by; 0: head_dim
  double score_cap = 0, logit_cap = 0;  // what tanh bounds them to; 0: nothing does
  int token_types = 0;                  // BERT: 2; DistilBERT: 0
  int position_offset = 0;              // RoBERTa: 2
  // Sizes of the table that each stack of T5 has (models/program/graph/relative.h). There is no
  // table if `relative_buckets` is 0.
  int relative_buckets = 0, relative_distance = 0;
  // Some blocks see only `local_window` tokens back, including their own. 0 means that all blocks
  // see all tokens. These are the blocks from `local_from` on, except those whose number mod
  // `local_period` is `global_place`.
  int local_window = 0;
  int local_from = 0, local_period = 1, global_place = -1;
  double local_rotary_base = 0;  // of these blocks, unscaled; 0: as of the others
  // Blocks without rotary positions, ascending. In the other blocks, tokens see only their own
  // chunk of `attention_chunk` positions, or all earlier tokens if it is 0.
  std::vector<int> unrotated_blocks;
  int attention_chunk = 0;
  // Attributes::temperature of the queries in blocks without rotary positions. If it is 0, they are
  // not scaled.
  double temperature = 0;
  int temperature_floor = 1;
  int experts = 0;  // of every block; 0: none
  int experts_per_token = 0;
  // Multi-head latent attention: keys and values are made of vectors of width kv_lora_rank, queries
  // of vectors of width q_lora_rank (0: of the hidden size). The last rotary_dim of a head's width
  // are rotated.
  int q_lora_rank = 0, kv_lora_rank = 0, v_head_dim = 0;
  int dense_ffn = 0;              // width of the MLP of blocks without experts
  std::vector<int> dense_blocks;  // those blocks, ascending; the others have experts
  int shared_ffn = 0;             // of the MLP beside the experts that all tokens go through
  bool shared_gate = false;       // what it makes is multiplied by a sigmoid of the token
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
  // The graph that the nodes of an ONNX file describe (onnx/imported_graph.h). The numbers above
  // are then those that rules about plans need, and `architecture` has no meaning.
  std::shared_ptr<const ImportedGraph> imported;

  bool reads_images() const { return image_size > 0; }
  std::int64_t pixels() const { return std::int64_t{channels} * image_size * image_size; }
  bool classifies_text() const { return head == Head::label && !reads_images(); }
  bool has_decoder() const { return family == Family::seq2seq; }
  bool is_causal() const {
    return family != Family::bert && family != Family::vit && !has_decoder();
  }
  // Returns whether attention hides padding. Texts are padded to rows, and without a causal mask
  // tokens would see the padding behind them.
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

std::string zoo_folder();  // models/zoo, which is part of the program

// `ref`: a zoo name, a path to a config.json (or to our model JSON, or to a folder with a
// config.json, or to an ONNX file), relative to `folder`. Unknown: InputError that names the
// nearest zoo name.
Model load_model(const std::string& ref, const std::string& folder,
                 const std::string& zoo = zoo_folder());
Model read_model(Fields fields);        // our JSON / the job file's inline object
Model read_huggingface(Fields fields);  // a config.json
std::vector<std::string> zoo_names(const std::string& zoo = zoo_folder());
bool is_zoo_name(const std::string& ref, const std::string& zoo = zoo_folder());

// The forward graph of one micro-batch on one undivided rank. The training's precision, attention,
// compiler, micro_batch, sequence_length and predicted_positions decide its types and attributes.
// predicted_positions 0 of a masked model: 15 % of the sequence, as BERT masks.
Graph build_graph(const Model& model, const Training& training);

}  // namespace meshwright
