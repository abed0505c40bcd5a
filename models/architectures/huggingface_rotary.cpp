#include "models/architectures/huggingface_rotary.h"

#include <cmath>

#include "models/architectures/architecture.h"
#include "models/core/json.h"

namespace meshwright::architectures {

namespace {

// Reads YaRN's scaling. For longer texts it also has a temperature, which scales sines and cosines
// (`attention_factor`) or, in latent attention, the scores (`mscale_all_dim`).
void read_yarn(Fields& rope, Model& model) {
  const auto number = [&](std::string_view key, double usual) {
    const double value = is_given(rope, key) ? rope.required<double>(key) : usual;
    if (!(value >= 0 && std::isfinite(value))) rope.fail(key, "must be 0 or more");
    return value;
  };
  const auto temperature = [&](double scale) {
    return model.rotary_factor <= 1 ? 1.0 : 0.1 * scale * std::log(model.rotary_factor) + 1;
  };
  model.rotary_yarn = true;
  model.rotary_factor = rope.required<double>("factor");
  if (!(model.rotary_factor > 0 && std::isfinite(model.rotary_factor)))
    rope.fail("factor", "must be above 0");
  const double fast = number("beta_fast", 0), slow = number("beta_slow", 0);
  model.rotary_high = fast == 0 ? 32 : fast;
  model.rotary_low = slow == 0 ? 1 : slow;
  if (model.rotary_high < model.rotary_low) rope.fail("beta_fast", "must not be below beta_slow");
  const std::string_view length = "original_max_position_embeddings";
  model.rotary_original = rope.required<int>(length);
  if (model.rotary_original < 1) rope.fail(length, "must be 1 or more");
  if (is_given(rope, "truncate")) model.rotary_truncate = rope.required<bool>("truncate");
  const double mscale = number("mscale", 0), of_all = number("mscale_all_dim", 0);
  double turned =
      mscale > 0 && of_all > 0 ? temperature(mscale) / temperature(of_all) : temperature(1);
  if (is_given(rope, "attention_factor")) turned = rope.required<double>("attention_factor");
  const bool is_latent = model.kv_lora_rank > 0;
  if (turned != 1 && is_latent)
    rope.fail(mscale > 0 && of_all > 0 ? "mscale" : "mscale_all_dim",
              "sines that are scaled are not built for latent attention; mscale must be "
              "mscale_all_dim");
  const double root = is_latent ? (of_all > 0 ? temperature(of_all) : 1) : turned;
  model.score_factor = root * root;
}

void read_rotary_scaling(Fields& rope, bool by_turns, Model& model) {
  const auto positive = [&](std::string_view key) {
    const auto value = rope.required<double>(key);
    if (!(value > 0 && std::isfinite(value))) rope.fail(key, "must be above 0");
    return value;
  };
  model.rotary_factor = positive("factor");
  if (!by_turns) return;
  model.rotary_low = positive("low_freq_factor");
  model.rotary_high = positive("high_freq_factor");
  if (model.rotary_high < model.rotary_low)
    rope.fail("high_freq_factor", "must not be below low_freq_factor");
  const std::string_view length = "original_max_position_embeddings";
  model.rotary_original = rope.required<int>(length);
  if (model.rotary_original < 1) rope.fail(length, "must be 1 or more");
}

// Reads `rope_scaling`, or `rope_parameters` of newer files: {"rope_type": "default", "rope_theta":
// 1e4, "partial_rotary_factor": 0.25}, and how the angles of longer texts are scaled. Families with
// windows may have such an object for the blocks with a window and another for those without.
// `share` receives the share of a head that is rotated.
void read_rope_object(Fields& fields, std::string_view key, Model& model, double& share) {
  if (!is_given(fields, key)) return;
  Fields rope = fields.object(key);
  if (rope.has("full_attention")) {
    if (is_given(rope, "sliding_attention")) {
      Fields local = rope.object("sliding_attention");
      if (is_given(local, "rope_type") && local.required<std::string>("rope_type") != "default")
        local.fail("rope_type",
                   "rotary positions of blocks with a window are not scaled; use default");
      if (is_given(local, "rope_theta"))
        model.local_rotary_base = local.required<double>("rope_theta");
    }
    return read_rope_object(rope, "full_attention", model, share);
  }
  for (std::string_view type_key : {"rope_type", "type"}) {
    if (!is_given(rope, type_key)) continue;
    const auto type = rope.required<std::string>(type_key);
    const std::string_view no_yarn = info(model.architecture).config.no_yarn;
    if (type == "yarn" && !no_yarn.empty()) rope.fail(type_key, "'yarn' " + std::string(no_yarn));
    if (type == "yarn")
      read_yarn(rope, model);
    else if (type == "linear" || type == "llama3")
      read_rotary_scaling(rope, type == "llama3", model);
    else if (type != "default")
      rope.fail(type_key, "scaling '" + type +
                              "' of rotary positions is not built; known: default, linear, llama3 "
                              "and yarn. It changes angles, not costs: without " +
                              std::string(key) + " the model is planned and predicted the same");
  }
  if (is_given(rope, "rope_theta")) model.rotary_base = rope.required<double>("rope_theta");
  if (is_given(rope, "partial_rotary_factor"))
    share = rope.required<double>("partial_rotary_factor");
}

}  // namespace

void read_rotary(Fields& fields, Model& model) {
  double share = info(model.architecture).rotary_share;
  if (share == 0) return;
  std::string_view width_key = "rotary_pct";
  for (std::string_view key : {"rotary_emb_base", "rope_theta"})
    if (is_given(fields, key)) model.rotary_base = fields.required<double>(key);
  for (std::string_view key : {"rotary_pct", "partial_rotary_factor"})
    if (is_given(fields, key)) share = fields.required<double>(width_key = key);
  for (std::string_view key : {"rope_scaling", "rope_parameters"})
    read_rope_object(fields, key, model, share);
  if (!(model.local_rotary_base >= 0 && std::isfinite(model.local_rotary_base)))
    fields.fail("rope_local_base_freq", "the base of rotary positions must be positive");
  if (!(model.rotary_base > 0 && std::isfinite(model.rotary_base)))
    fields.fail("rope_theta", "the base of rotary positions must be positive");
  if (model.rotary_yarn && model.rotary_base <= 1)
    fields.fail("rope_theta", "YaRN needs a base above 1");
  if (model.kv_lora_rank > 0) return;  // a part of a head, whose width is given
  if (model.rotary_yarn && share < 1 && model.score_factor != 1)
    fields.fail(width_key, "YaRN's temperature of a share of each head is not built");
  if (!(share > 0 && share <= 1))
    fields.fail(width_key, "a share of a head's width must be above 0 and at most 1");
  model.rotary_dim = static_cast<int>(share * model.head_dim);
  if (const std::string_view key = info(model.architecture).config.rotary_width; !key.empty()) {
    width_key = key;
    if (!fields.has(width_key)) {
      constexpr int usual = 64;  // GPT-J's
      if (share < 1 && share == info(model.architecture).rotary_share) model.rotary_dim = usual;
    } else if (!is_given(fields, width_key)) {
      model.rotary_dim = model.head_dim;
    } else {
      model.rotary_dim = fields.required<int>(width_key);
    }
  }
  if (model.rotary_dim < 2 || model.rotary_dim % 2 != 0 || model.rotary_dim > model.head_dim)
    fields.fail(width_key, "rotating " + std::to_string(model.rotary_dim) + " of a head's " +
                               std::to_string(model.head_dim) +
                               " numbers is impossible; an even number of them is needed");
}

namespace {

json yarn_of(const Model& model) {
  json yarn = {{"rope_type", "yarn"},
               {"factor", model.rotary_factor},
               {"beta_fast", model.rotary_high},
               {"beta_slow", model.rotary_low},
               {"original_max_position_embeddings", model.rotary_original}};
  if (!model.rotary_truncate) yarn["truncate"] = false;
  if (info(model.architecture).grows_from_floor) yarn["llama_4_scaling_beta"] = model.temperature;
  const double root = std::sqrt(model.score_factor);
  if (model.kv_lora_rank == 0)
    yarn["attention_factor"] = root;
  else if (model.rotary_factor > 1)
    yarn["mscale"] = yarn["mscale_all_dim"] = (root - 1) / (0.1 * std::log(model.rotary_factor));
  return yarn;
}

}  // namespace

void write_rotary(const Model& model, json& config) {
  if (model.rotary_dim == 0) return;
  const ConfigFile& file = info(model.architecture).config;
  const auto set = [&](std::string_view key, const json& value) {
    if (!key.empty()) config[std::string(key)] = value;
  };
  set(file.rotary_base, model.rotary_base);
  set(file.rotary_share, static_cast<double>(model.rotary_dim) / model.head_dim);
  set(file.rotary_width, model.rotary_dim);
  if (model.rotary_yarn) {
    config["rope_scaling"] = yarn_of(model);
  } else if (model.rotary_factor != 1) {
    config["rope_scaling"] = {{"rope_type", model.rotary_original > 0 ? "llama3" : "linear"},
                              {"factor", model.rotary_factor}};
    if (model.rotary_original > 0)
      config["rope_scaling"].update({{"low_freq_factor", model.rotary_low},
                                     {"high_freq_factor", model.rotary_high},
                                     {"original_max_position_embeddings", model.rotary_original}});
  }
}

}  // namespace meshwright::architectures
