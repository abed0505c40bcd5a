// Describes an architecture, as a row of the table of architectures (families/kinds.h). It holds
// how Hugging Face names the parameters, how the query, key and value matrices are laid out, the
// traits that follow from the name, and the keys of a config.json. A name is the path of a module,
// whose parameters are `<path>.weight` and `<path>.bias`.
#pragma once

#include <span>
#include <string_view>

#include "models/architectures/config_file.h"
#include "models/architectures/model.h"
#include "models/program/graph/attributes.h"

namespace meshwright::architectures {

struct EmbeddingNames {
  std::string_view unit = "model.embed_tokens", tokens = "model.embed_tokens", positions = "",
                   token_types = "", norm = "";
};
// Attention has three matrices, or one packed matrix `qkv`.
struct AttentionNames {
  std::string_view module = "", q = "", k = "", v = "", out = "", qkv = "";
};
struct MlpNames {
  std::string_view module = "mlp";
  std::string_view gate = "";  // made up if no published model has one
  std::string_view in = "", out = "";
};
struct NormNames {
  std::string_view attention = "", mlp = "", final = "";  // one name twice: both branches share it
};
struct HeadNames {
  std::string_view unit = "lm_head", decoder = "lm_head", dense = "", norm = "";
  std::string_view bias = "";  // a parameter's name, not a path
};

// An empty name means that the architecture does not have the module. The names of attention, MLP
// and the first two norms are those inside a block.
struct ArchitectureInfo {
  std::string_view name = "";
  EmbeddingNames embeddings = {};
  AttentionNames attention = {};
  MlpNames mlp = {};
  NormNames norms = {};
  HeadNames head = {};
  // The following names are those of an encoder-decoder model. All other names are the encoder's
  // and begin with `encoder`. The decoder's begin with `decoder` instead, and it also has attention
  // to the encoder's output.
  std::string_view encoder = "", decoder = "";
  std::string_view shared_tokens = "";  // token table that both stacks use
  std::string_view cross_attention = "", cross_norm = "";
  std::string_view mlp_layer = "", decoder_mlp_layer = "";  // prefixes of the names around the MLP
  std::string_view class_token = "";                        // name of the parameter (images)
  std::string_view embedding_projection = "";  // from the tables' width to the hidden size
  std::string_view block = "";         // "transformer.h"; a block's path is `transformer.h.<i>`
  std::string_view shared_block = "";  // all blocks use the parameters of this block
  // Name of the single matrix in which queries, keys and values are published, in this order. With
  // `published_by_groups`, it has this order within each group of heads that share a key. With
  // `published_qvk_groups`, which is above 0 for CodeGen only, the matrix has this many groups of
  // heads, each in the order of queries, values and keys.
  std::string_view published_qkv = "";
  bool published_by_groups = false;
  int published_qvk_groups = 0;
  std::string_view q_norm = "", k_norm = "";
  std::string_view gated_mlp_in = "";       // mlp.in of a gated MLP, if it has another name
  std::string_view published_gate_in = "";  // the one matrix that holds mlp.gate and mlp.in
  std::string_view relative_bias = "";      // table of a stack; it belongs to the first block
  std::string_view router = "";             // experts: the names in `mlp` have `*` for a number
  // Name of the bias for the choice of experts: after the router's, or of a block if it has a dot.
  std::string_view router_bias = "";
  std::string_view shared_experts = "";  // path of the MLP for all tokens
  // Names inside shared_experts if its gate and its first matrix are published as one.
  std::string_view shared_gate_in = "", shared_out = "";
  std::string_view shared_gate = "";
  // Names the one tensor in which the experts' first matrices are published: for each expert, the
  // gate and the matrix (mlp.in) whose output the gate multiplies.
  std::string_view published_expert_gate_in = "";
  // With `bare_experts`, expert matrices are published as [in, out], no name ends in `weight`, and
  // biases end in `_bias`. In the tensor of both first matrices, the gate comes before mlp.in, or
  // their columns alternate with `experts_in_turn`.
  bool bare_experts = false, experts_in_turn = false;
  std::string_view sinks = "";  // name of the parameter of attention sinks
  // Name the norms of the outputs of attention and MLP, before these are added to the residual
  // stream. Only models that have a norm before and after each branch have them.
  std::string_view attention_out_norm = "", mlp_out_norm = "";
  bool experts_out_norm = false;  // only blocks with experts have mlp_out_norm
  // Name the norms inside attention and the MLP, before the last matrix of each.
  std::string_view attention_inner_norm = "", mlp_inner_norm = "";
  // Names a matrix whose product with the block's normed input, through a sigmoid, multiplies the
  // output of attention before its last matrix.
  std::string_view attention_gate = "";
  // Name of the parameter: a bias of attention's last matrix that only the last block has.
  std::string_view last_out_bias = "";
  // Name the matrices of the head that predicts the class of a text. `class_dense` is the matrix
  // before the last one, which only encoders have.
  std::string_view class_dense = "", class_output = "score";
  Packing packing = Packing::separate;
  bool weight_in_out = false;     // block matrices are stored [in, out]
  bool post_norm = false;         // norms after the residual sum (BERT)
  bool branch_norm = false;       // norms before the residual sum, of what is added (OLMo 2)
  bool scaled_scores = true;      // by 1 / sqrt(head width)
  bool scaled_tied_head = false;  // a tied head reads activations / sqrt(hidden size)
  bool bare_norms = false;        // norms of the residual stream have no weights
  bool turns_back = false;        // rotary positions turn the other way
  bool biased_head = false;       // the head has its bias although the MLPs have none
  bool bare_first_block = false;  // the first block's attention reads the embeddings without a norm
  bool grows_from_floor = false;  // queries of all blocks grow, from place temperature_floor on
  bool class_dropout = false;     // dropout also before class_dense
  bool class_relu = false;        // relu instead of tanh after class_dense
  double rotary_share = 0;        // share of a head's width that is rotated, unless a file says it
  Traits traits = {};
  ConfigFile config = {};                          // without a generator: no config.json is known
  std::span<const ConfigFile> other_configs = {};  // of other model types with the same names
};

const ArchitectureInfo& info(Architecture architecture);

// Returns a model with the traits of this architecture and no sizes.
Model model_of(Architecture architecture);

// Reads the sizes, fills in those that follow from others (kv_heads, ffn, head_dim) and checks that
// they fit each other. A null counts as absent.
void read_sizes(Fields& fields, const SizeKeys& keys, Model& model);

// Reads the token that a decoder reads first, and checks that it is in the vocabulary.
void read_decoder_start(Fields& fields, std::string_view key, Model& model);

// Names the keys under which a file gives the sizes of images. The defaults are 224 x 224 pixels of
// 3 channels in patches of 16 x 16.
struct ImageKeys {
  std::string_view size, patch, channels;
};
void read_image_sizes(Fields& fields, const ImageKeys& keys, Model& model);

// Check that a model can classify texts, and that the number of classes is in range. They throw an
// InputError at `key` otherwise.
void check_classifies(const Fields& fields, std::string_view key, const Model& model);
void check_classes(const Fields& fields, std::string_view key, int classes);

// Names the keys under which a file gives the numbers of experts. Their other keys have the same
// name everywhere.
struct ExpertKeys {
  std::string_view experts, per_token;
};
void read_experts(Fields& fields, const ExpertKeys& keys, Model& model);

bool is_given(Fields& fields, std::string_view key);  // present and not null

}  // namespace meshwright::architectures
