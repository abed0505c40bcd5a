#include "models/architectures/families/config_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/core/json.h"

namespace meshwright::architectures::families {

bool flag(Fields& fields, std::string_view key, bool usual) {
  return is_given(fields, key) ? fields.required<bool>(key) : usual;
}

int number(Fields& fields, std::string_view key, int usual, int least) {
  const int value = is_given(fields, key) ? fields.required<int>(key) : usual;
  if (value < least)
    fields.fail(key, std::to_string(value) + " must be " + std::to_string(least) + " or more");
  return value;
}

double positive(Fields& fields, std::string_view key, double usual) {
  const double value = is_given(fields, key) ? fields.required<double>(key) : usual;
  if (!(value > 0 && std::isfinite(value))) fields.fail(key, "must be above 0");
  return value;
}

namespace {

// Returns a soft cap, or `usual` if the key is absent. A null in the file means that there is none,
// for which it returns 0.
double cap(Fields& fields, std::string_view key, double usual) {
  if (!fields.has(key)) return usual;
  if (!is_given(fields, key)) return 0;
  const auto value = fields.required<double>(key);
  if (!(value > 0 && std::isfinite(value)))
    fields.fail(key, "a soft cap must be above 0; null: there is none");
  return value;
}

}  // namespace

void read_key(const ConfigKey& row, Fields& fields, Model& model) {
  const bool usual = row.usual != 0;
  for (bool Model::*const each : row.flags)
    if (each != nullptr) model.*each = flag(fields, row.key, usual);
  if (row.negated != nullptr) model.*row.negated = !flag(fields, row.key, usual);
  if (row.count != nullptr)
    model.*row.count = number(fields, row.key, static_cast<int>(row.usual), row.least);
  if (row.positive != nullptr) model.*row.positive = positive(fields, row.key, row.usual);
  if (row.cap != nullptr) model.*row.cap = cap(fields, row.key, row.usual);
  if (row.norm != QueryKeyNorm::none && flag(fields, row.key, usual))
    model.query_key_norm = row.norm;
  if (row.read != nullptr) row.read(fields, model);
}

void write_key(const ConfigKey& row, const Model& model, json& config) {
  if (!row.is_written) return;
  const std::string key(row.key);
  if (row.flags[0] != nullptr) config[key] = model.*row.flags[0];
  if (row.negated != nullptr) config[key] = !(model.*row.negated);
  if (row.count != nullptr) config[key] = model.*row.count;
  if (row.positive != nullptr) config[key] = model.*row.positive;
  if (row.cap != nullptr) config[key] = model.*row.cap > 0 ? json(model.*row.cap) : json(nullptr);
  if (row.norm != QueryKeyNorm::none) config[key] = model.query_key_norm == row.norm;
  if (row.write != nullptr) row.write(model, config);
}

void choose_activation(Fields& fields, std::string_view key, std::string_view what,
                       std::span<const ActivationWord> words, Model& model) {
  std::vector<std::string> known;
  for (const ActivationWord& row : words) known.emplace_back(row.word);
  const int index = choose(fields, key, what, fields.required<std::string>(key), known);
  model.activation = words[index].activation;
}

void read_head_width(Fields& fields, std::string_view key, Model& model) {
  if (!is_given(fields, key)) return;
  model.head_dim = fields.required<int>(key);
  constexpr int most = 1 << 12;
  if (model.head_dim < 1 || model.head_dim > most)
    fields.fail(
        key, std::to_string(model.head_dim) + " is out of range; use 1 to " + std::to_string(most));
}

void read_head_dim(Fields& fields, Model& model) {
  if (fields.has("head_dim")) model.head_dim = 0;  // a null: the width follows from the sizes
  read_head_width(fields, "head_dim", model);
}

void write_head_dim(const Model& model, json& config) { config["head_dim"] = model.head_dim; }

void write_unusual_head_dim(const Model& model, json& config) {
  if (model.head_dim * model.heads != model.hidden) write_head_dim(model, config);
}

void read_window(Fields& fields, Model& model) {
  if (is_given(fields, "sliding_window"))
    model.local_window = number(fields, "sliding_window", 0, 1);
  check_layer_types(fields, model);
}

void write_window(const Model& model, json& config) {
  config["sliding_window"] = model.local_window > 0 ? json(model.local_window) : json(nullptr);
}

void check_names_each(const Fields& fields, std::string_view key, std::size_t named,
                      const Model& model) {
  if (static_cast<int>(named) != model.layers)
    fields.fail(key, "names " + std::to_string(named) + " blocks, but the model has " +
                         std::to_string(model.layers) + "; name each");
}

void check_block_kinds(Fields& fields, const Model& model, BlockKind kind_of,
                       std::string_view said_by) {
  const std::string_view key = "layer_types";
  if (!is_given(fields, key)) return;
  const auto types = fields.required<std::vector<std::string>>(key);
  check_names_each(fields, key, types.size(), model);
  for (int block = 0; block < model.layers; ++block) {
    const std::string built(kind_of(model, block));
    const std::string& type = types[block];
    if (type != built)
      fields.fail(key, "block " + std::to_string(block) + " is '" + type + "', " +
                           std::string(said_by) + " it '" + built +
                           "'; other orders are not built");
  }
}

void write_block_kinds(const Model& model, BlockKind kind_of, json& config) {
  json& types = config["layer_types"] = json::array();
  for (int block = 0; block < model.layers; ++block) types.push_back(kind_of(model, block));
}

namespace {

std::string_view kind_by_window(const Model& model, int block) {
  return model.window_of(block) > 0 ? "sliding_attention" : "full_attention";
}

}  // namespace

void check_layer_types(Fields& fields, Model& model) {
  check_block_kinds(fields, model, kind_by_window, "the windows that the other keys give make");
}

void write_layer_types(const Model& model, json& config) {
  write_block_kinds(model, kind_by_window, config);
}

void place_windows(const std::vector<std::string>& types, Model& model) {
  const auto is_full = [&](int block) { return types[block] == "full_attention"; };
  const auto next_full = [&](int block, int end) {
    while (block < end && !is_full(block)) ++block;
    return block;
  };
  const int width = std::exchange(model.local_window, 1);
  for (const bool ends_apart : {false, true}) {
    int from = 0, to = model.layers;
    while (ends_apart && from < to && is_full(from)) ++from;
    while (ends_apart && to > from && is_full(to - 1)) --to;
    const int first = next_full(from, to), second = next_full(first + 1, to);
    model.local_period = first == to ? 1 : second < to ? second - first : model.layers;
    model.global_place = first == to ? -1 : first % model.local_period;
    model.local_from = from;
    model.local_to = to < model.layers ? to : 0;
    bool fits = true;
    for (int block = 0; block < model.layers; ++block)
      fits = fits && is_full(block) == (model.window_of(block) == 0);
    if (fits) break;
  }
  model.local_window = width;
}

void read_windows_in_turn(Fields& fields, int usual_period, int usual_place, int usual_window,
                          Model& model) {
  const std::string_view key = "layer_types", pattern = "sliding_window_pattern";
  model.local_period = usual_period;
  model.global_place = usual_place;
  if (is_given(fields, pattern)) {
    const bool is_word = fields.raw(pattern).is_string();
    const auto word = is_word ? fields.required<std::string>(pattern) : std::string();
    model.local_period = is_word ? static_cast<int>(word.size()) : number(fields, pattern, 1, 1);
    model.global_place = is_word ? static_cast<int>(word.find('G')) : model.local_period - 1;
    if (is_word && (word.empty() || std::ranges::count(word, 'G') != 1))
      fields.fail(pattern, "'" + word + "': one block without a window (G) in turn is built");
  }
  bool any_window = true;
  if (is_given(fields, key)) {
    const auto types = fields.required<std::vector<std::string>>(key);
    check_names_each(fields, key, types.size(), model);
    any_window = std::ranges::any_of(
        types, [](const std::string& type) { return type != "full_attention"; });
    place_windows(types, model);
  }
  const std::string_view width = "sliding_window";
  if (fields.has(width) && !is_given(fields, width)) any_window = false;
  model.local_window = any_window ? number(fields, width, usual_window, 1) : 0;
  check_layer_types(fields, model);
}

void write_windows_in_turn(const Model& model, json& config) {
  write_window(model, config);
  write_layer_types(model, config);
}

void read_blocks_without_rotary(Fields& fields, Model& model) {
  const std::string_view key = "no_rope_layers";
  const int interval = number(fields, "no_rope_layer_interval", 4, 1);
  std::vector<int> with;
  if (is_given(fields, key)) with = fields.required<std::vector<int>>(key);
  if (!with.empty()) check_names_each(fields, key, with.size(), model);
  for (int block = 0; block < model.layers; ++block)
    if (with.empty() ? (block + 1) % interval == 0 : with[block] == 0)
      model.unrotated_blocks.push_back(block);
}

void write_blocks_without_rotary(const Model& model, json& config) {
  json& with = config["no_rope_layers"] = json::array();
  for (int block = 0; block < model.layers; ++block)
    with.push_back(model.has_rotary(block) ? 1 : 0);
}

void turn_only_in_windows(Model& model) {
  for (int block = 0; block < model.layers; ++block)
    if (model.window_of(block) == 0) model.unrotated_blocks.push_back(block);
}

void read_dense_types(Fields& fields, int usual_dense, Model& model) {
  const std::string_view key = "mlp_layer_types", first = "first_k_dense_replace";
  std::vector<int> dense;
  if (is_given(fields, key)) {
    const auto types = fields.required<std::vector<std::string>>(key);
    check_names_each(fields, key, types.size(), model);
    for (int block = 0; block < model.layers; ++block)
      if (choose(fields, key, "kind of MLP", types[block], {"dense", "sparse"}) == 0)
        dense.push_back(block);
    return set_dense_blocks(fields, key, std::move(dense), model);
  }
  const int count = number(fields, first, usual_dense, 0);
  for (int block = 0; block < std::min(count, model.layers); ++block) dense.push_back(block);
  set_dense_blocks(fields, first, std::move(dense), model);
}

void write_dense_types(const Model& model, json& config) {
  json& types = config["mlp_layer_types"] = json::array();
  for (int block = 0; block < model.layers; ++block)
    types.push_back(model.has_experts(block) ? "sparse" : "dense");
  if (model.dense_ffn > 0) config["intermediate_size"] = model.dense_ffn;
}

void read_chosen_by_bias(Fields& fields, std::string_view count_key, Model& model) {
  const bool is_newer = !is_given(fields, count_key) && is_given(fields, "num_local_experts");
  read_experts(fields, {is_newer ? "num_local_experts" : count_key, "num_experts_per_tok"}, model);
  if (flag(fields, "output_router_logits", false) && model.router_aux_loss_coef > 0)
    fields.fail("router_aux_loss_coef",
                "a balancing loss of sigmoid scores is not built; set it to 0");
  model.router_aux_loss_coef = 0;
}

void read_balanced_experts(Fields& fields, std::string_view count_key, Model& model) {
  read_experts(fields, {count_key, "num_experts_per_tok"}, model);
  if (!flag(fields, "output_router_logits", false)) model.router_aux_loss_coef = 0;
}

void write_experts(std::string_view count_key, const Model& model, json& config) {
  config[std::string(count_key)] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["router_aux_loss_coef"] = model.router_aux_loss_coef;
  config["output_router_logits"] = model.router_aux_loss_coef > 0;
  write_own_expert_keys(model, config);
}

void read_local_experts(Fields& fields, Model& model) {
  read_balanced_experts(fields, "num_local_experts", model);
}

void write_local_experts(const Model& model, json& config) {
  write_experts("num_local_experts", model, config);
}

void write_own_expert_keys(const Model& model, json& config) {
  if (model.expert_capacity_factor > 0)
    config["expert_capacity_factor"] = model.expert_capacity_factor;
  // A file without these keys is one of dropless experts (read_experts).
  const bool usual = model.expert_capacity_factor == 0;
  if (model.expert_dropless != usual) config["expert_dropless"] = model.expert_dropless;
  if (!model.expert_dropless) return;
  if (model.expert_rank_capacity_factor != 0)
    config["expert_rank_capacity_factor"] = model.expert_rank_capacity_factor;
  if (model.expert_overflow_drops) config["expert_overflow"] = "drop";
}

void set_dense_blocks(Fields& fields, std::string_view said_by, std::vector<int> blocks,
                      Model& model, std::string_view key) {
  if (static_cast<int>(blocks.size()) == model.layers)
    fields.fail(said_by, "no block has experts; describe a model without them");
  if (!blocks.empty()) {
    if (!is_given(fields, key)) fields.fail(key, "missing; blocks without experts need it");
    model.dense_ffn = number(fields, key, 0, 1);
  }
  model.dense_blocks = std::move(blocks);
}

void read_start_token(Fields& fields, Model& model) {
  read_decoder_start(fields, "decoder_start_token_id", model);
}

void write_start_token(const Model& model, json& config) {
  config["is_encoder_decoder"] = true;
  config["decoder_start_token_id"] = model.decoder_start;
}

}  // namespace meshwright::architectures::families
