// The table of architectures. It holds, for each architecture, how Hugging Face names the
// parameters, how the query, key and value matrices are laid out, and the traits that follow from
// its name. A name is the path of a module, whose parameters are `<path>.weight` and `<path>.bias`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/model.h"
#include "models/program/graph/attributes.h"

namespace meshwright {

// Traits that follow from the name of an architecture unless a config.json sets them.
struct Traits {
  Family family = Family::gpt;
  Head head = Head::lm;
  bool tied = true, gated_ffn = false, rms_norm = false, learned_positions = false;
  bool parallel_residual = false, alibi = false, rotary_interleaved = false;
  bool one_norm = false, one_plus_norms = false;
  bool biases = true, norm_bias = true, attention_bias = true, attention_out_bias = true;
  bool gelu_tanh = false, gated_gelu = false, relu = false, squared_relu = false;
  bool activation_dropout = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  double epsilon = 1e-5;
  double rotary_share = 0;  // of a head's width
  int token_types = 0, position_offset = 0, decoder_start = 0;
  int experts = 0, experts_per_token = 0;
  int relative_buckets = 0, relative_distance = 0;
};

// A row of the table of architectures. An empty name means that the architecture does not have the
// module.
struct ArchitectureInfo {
  Architecture architecture = Architecture::gpt2;
  std::string_view name = "";
  std::string_view embedding_unit = "";
  std::string_view tokens = "", positions = "", token_types = "",
                   embedding_norm = "";  // "": it has none
  // Names of an encoder-decoder model. All names are the encoder's and begin with `encoder`. The
  // decoder's begin with `decoder` instead, and it also has attention to the encoder's output.
  std::string_view encoder = "", decoder = "";
  std::string_view shared_tokens = "";  // the one table that both stacks use
  std::string_view cross_attention = "", cross_norm = "";
  std::string_view mlp_layer = "", decoder_mlp_layer = "";  // prefixes of the names around the MLP
  std::string_view class_token = "";                        // name of the parameter (images)
  std::string_view embedding_projection = "";  // from the tables' width to the hidden size
  std::string_view block = "";         // "transformer.h"; a block's path is `transformer.h.<i>`
  std::string_view shared_block = "";  // all blocks use the parameters of this block
  // Names inside a block. Attention has one packed matrix, or three.
  std::string_view attention = "", qkv = "", q = "", k = "", v = "", attention_out = "";
  // Name of the single matrix in which queries, keys and values are published, in this order. With
  // `published_by_groups`, it has this order within each group of heads that share a key.
  std::string_view published_qkv = "";
  bool published_by_groups = false;
  std::string_view q_norm = "", k_norm = "";
  std::string_view mlp = "", mlp_gate = "", mlp_in = "",
                   mlp_out = "";            // mlp_gate: made up if no model has a gate
  std::string_view gated_mlp_in = "";       // mlp_in of a gated MLP, if it has another name
  std::string_view published_gate_in = "";  // the one matrix that holds mlp_gate and mlp_in
  std::string_view relative_bias = "";      // table of a stack, which its first block has
  std::string_view router = "";       // experts: mlp_gate, mlp_in and mlp_out have `*` for a number
  std::string_view router_bias = "";  // a parameter's name, after the router's
  std::string_view shared_experts = "";  // path of the MLP for all tokens
  std::string_view shared_gate = "";
  // Name of the one tensor in which the experts' first matrices are published: for each expert, the
  // gate and the matrix (mlp_in) whose output the gate multiplies.
  std::string_view published_expert_gate_in = "";
  // With `bare_experts`, expert matrices are published as [in, out], no name ends in `weight`, and
  // biases end in `_bias`. In the tensor of both first matrices, the gate comes before mlp_in, or
  // their columns alternate with `experts_in_turn`.
  bool bare_experts = false, experts_in_turn = false;
  std::string_view sinks = "";  // name of the parameter of attention sinks
  std::string_view attention_norm = "",
                   mlp_norm = "";  // one name twice: both branches share one norm
  // Norms of the outputs of attention and MLP, before these are added to the residual stream. Only
  // models that have a norm before and after each branch have them.
  std::string_view attention_out_norm = "", mlp_out_norm = "";
  std::string_view final_norm = "";
  std::string_view head = "", head_dense = "", head_norm = "", head_decoder = "";  // head: its unit
  std::string_view head_bias = "";  // a parameter's name, not a path
  // Head that predicts the class of a text. `class_dense` is the matrix before the last one, which
  // only encoders have.
  std::string_view class_dense = "", class_output = "score";
  Packing packing = Packing::separate;
  bool weight_in_out = false;     // block matrices are stored [in, out]
  bool post_norm = false;         // norms after the residual sum (BERT)
  bool branch_norm = false;       // norms before the residual sum, of what is added (OLMo 2)
  bool scaled_scores = true;      // by 1 / sqrt(head width)
  bool scaled_tied_head = false;  // a tied head reads activations / sqrt(hidden size)
  bool class_dropout = false;     // dropout also before class_dense
  bool class_relu = false;        // relu instead of tanh after class_dense
  Traits traits = {};
};

const ArchitectureInfo& info(Architecture architecture);

struct FamilyInfo {
  Family family;
  std::string_view name;  // in our JSON
  Architecture architecture;
};
std::span<const FamilyInfo> family_table();

// Returns a model with the traits of this architecture and no sizes.
Model model_of(Architecture architecture);

// Keys under which a file gives the sizes. A key is "" if the file does not give that size.
struct SizeKeys {
  std::string_view hidden, layers, heads, kv_heads, ffn, vocabulary, positions;
};

// Reads the sizes, fills in those that follow from others (kv_heads, ffn, head_dim) and checks that
// they fit each other. A null counts as absent.
void read_sizes(Fields& fields, const SizeKeys& keys, Model& model);

// Reads the token that a decoder reads first, and checks that it is in the vocabulary.
void read_decoder_start(Fields& fields, std::string_view key, Model& model);

// Keys under which a file gives the sizes of images. The defaults are 224 x 224 pixels of 3
// channels in patches of 16 x 16.
struct ImageKeys {
  std::string_view size, patch, channels;
};
void read_image_sizes(Fields& fields, const ImageKeys& keys, Model& model);

// Check that a model can classify texts, and that the number of classes is in range. They throw an
// InputError at `key` otherwise.
void check_classifies(const Fields& fields, std::string_view key, const Model& model);
void check_classes(const Fields& fields, std::string_view key, int classes);

// Keys under which a file gives the numbers of experts. Their other keys have the same name
// everywhere.
struct ExpertKeys {
  std::string_view experts, per_token;
};
void read_experts(Fields& fields, const ExpertKeys& keys, Model& model);

bool is_given(Fields& fields, std::string_view key);  // present and not null

}  // namespace meshwright
