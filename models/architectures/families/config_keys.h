// Has rows of a config.json that several families have, and functions from which families make
// their own rows. A function that reads throws InputError for a value that is not supported.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/architecture.h"

namespace meshwright::architectures::families {

// Return the value of a key, or `usual` if it is absent or null. They throw InputError for a number
// below `least`.
bool flag(Fields& fields, std::string_view key, bool usual);
int number(Fields& fields, std::string_view key, int usual, int least);
double positive(Fields& fields, std::string_view key, double usual);  // above 0

inline constexpr SizeKeys gpt2_sizes = {"n_embd",  "n_layer",    "n_head",     "",
                                        "n_inner", "vocab_size", "n_positions"};
inline constexpr FixedKey scaled_scores{"scale_attn_weights", "true",
                                        "scores are always divided by sqrt(head width)"};
// A null is written because the usual token exceeds small vocabularies.
inline constexpr FixedKey no_pad_token{"pad_token_id", "null", "", true};

// Read and write one row of a ConfigFile.
void read_key(const ConfigKey& row, Fields& fields, Model& model);
void write_key(const ConfigKey& row, const Model& model, nlohmann::json& config);

// Sets the activation that a key names. Its errors say that `what` is unknown.
void choose_activation(Fields& fields, std::string_view key, std::string_view what,
                       std::span<const ActivationWord> words, Model& model);

// Reads the width of a head, which need not be the hidden size divided by the heads.
void read_head_width(Fields& fields, std::string_view key, Model& model);
void read_head_dim(Fields& fields, Model& model);
void write_head_dim(const Model& model, nlohmann::json& config);
inline constexpr ConfigKey head_dim{.read = read_head_dim, .write = write_head_dim};
// Writes the width only if it is not the hidden size divided by the heads.
void write_unusual_head_dim(const Model& model, nlohmann::json& config);
inline constexpr ConfigKey unusual_head_dim{.read = read_head_dim, .write = write_unusual_head_dim};

inline constexpr ConfigKey attention_bias{
    .key = "attention_bias", .flags = {&Model::attention_bias, &Model::attention_out_bias}};
inline constexpr ConfigKey usual_attention_bias{
    .key = "attention_bias",
    .flags = {&Model::attention_bias, &Model::attention_out_bias},
    .usual = true};
inline constexpr ConfigKey mlp_bias{.key = "mlp_bias", .flags = {&Model::biases}};
inline constexpr ConfigKey unwritten_mlp_bias{
    .key = "mlp_bias", .flags = {&Model::biases}, .is_written = false};

// Read and write `sliding_window`, which holds for all blocks. A `layer_types` in the file must
// match it.
void read_window(Fields& fields, Model& model);
void write_window(const Model& model, nlohmann::json& config);
inline constexpr ConfigKey window{.read = read_window, .write = write_window};

// Throws InputError unless the list at `key`, which has `named` entries, has one for each block.
void check_names_each(const Fields& fields, std::string_view key, std::size_t named,
                      const Model& model);
// Check and write `layer_types`, in which newer files name the kind of each block. The kinds must
// be those that follow from other keys. `said_by` names these keys in the message, with a verb.
using BlockKind = std::string_view (*)(const Model& model, int block);
void check_block_kinds(Fields& fields, const Model& model, BlockKind kind_of,
                       std::string_view said_by);
void write_block_kinds(const Model& model, BlockKind kind_of, nlohmann::json& config);
void check_layer_types(Fields& fields, Model& model);  // kinds follow from the windows
void write_layer_types(const Model& model, nlohmann::json& config);
inline constexpr ConfigKey layer_types{.read = check_layer_types, .write = write_layer_types};

// Read and write windows of which `layer_types` says the blocks. Of files without this list, all
// blocks have a window except those whose index mod `usual_period` is `usual_place`.
// `sliding_window_pattern`, a number or a word such as "LLLG", may give the period too.
void read_windows_in_turn(Fields& fields, int usual_period, int usual_place, int usual_window,
                          Model& model);
void write_windows_in_turn(const Model& model, nlohmann::json& config);
// Sets which blocks have windows by their kinds, as far as the fields of the model can say it: the
// first and the last ones may have none, and one in turn of those between.
void place_windows(const std::vector<std::string>& types, Model& model);

// Read and write which blocks have no rotary positions: those with a 0 in `no_rope_layers`, or
// every `no_rope_layer_interval`-th block if the list is absent or empty.
void read_blocks_without_rotary(Fields& fields, Model& model);
void write_blocks_without_rotary(const Model& model, nlohmann::json& config);
// Takes the rotary positions from all blocks without a window.
void turn_only_in_windows(Model& model);

// Read which blocks have an ordinary MLP: those that `mlp_layer_types` calls "dense", or the first
// `first_k_dense_replace` ones if the list is absent. The list is written.
void read_dense_types(Fields& fields, int usual_dense, Model& model);
void write_dense_types(const Model& model, nlohmann::json& config);

// Read and write experts whose number is at `count_key`, or at `num_local_experts`. A model has a
// balancing loss only if `output_router_logits` is true.
void read_balanced_experts(Fields& fields, std::string_view count_key, Model& model);
void write_experts(std::string_view count_key, const Model& model, nlohmann::json& config);
void read_local_experts(Fields& fields, Model& model);
void write_local_experts(const Model& model, nlohmann::json& config);
inline constexpr ConfigKey local_experts{.read = read_local_experts, .write = write_local_experts};

// Reads experts with a bias for the choice, whose router has sigmoid scores: `count_key` has their
// number. There is no balancing loss for them.
void read_chosen_by_bias(Fields& fields, std::string_view count_key, Model& model);

// Writes the keys of experts that transformers does not have and only meshwright reads.
void write_own_expert_keys(const Model& model, nlohmann::json& config);

// Sets which blocks have an ordinary MLP instead of experts. Its width is the value of `key`.
// Throws InputError if no block has experts or the width is missing.
void set_dense_blocks(Fields& fields, std::string_view said_by, std::vector<int> blocks,
                      Model& model, std::string_view key = "intermediate_size");

// Read and write the token that the decoder of two stacks reads first.
void read_start_token(Fields& fields, Model& model);
void write_start_token(const Model& model, nlohmann::json& config);
inline constexpr ConfigKey start_token{.read = read_start_token, .write = write_start_token};

}  // namespace meshwright::architectures::families
