#include <algorithm>

#include "models/architectures/model.h"
#include "tools/interop/bridge/bridge.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

constexpr const char* by_tokenizer = "tokenizer.use_tokenizer_vocab_size";
constexpr const char* tokenizer_type = "tokenizer.tokenizer_type";
constexpr const char* tokenizer_words = "tokenizer.vocab_size";
constexpr const char* rank_factor = "model.moe_expert_rank_capacity_factor";

// A setting of models that are not built here. An import rejects it unless its value is null or
// `harmless`.
struct Refused {
  const char* setting;
  json harmless;  // besides null
  const char* why;
  std::string_view built_in = {};  // models whose model_type begins so have it
};

const std::vector<Refused>& refused() {
  static const std::vector<Refused> rows = {
      {"model.window_size", json::array({-1, -1}), "attention in a window is not built here",
       "gemma"},
      {"model.softmax_type", "vanilla", "attention with a learned sink is not built"},
      {"model.qk_l2_norm", false, "norms of queries and keys are not built"},
      {"model.experimental_attention_variant", "none", "such attention is not built"},
      {"model.heterogeneous_block_specs", false, "blocks that differ are not built"},
      {"model.is_hybrid_model", false, "state-space layers are not built"},
      {"model.use_mup", false, "scales of muP are not built"},
      {"model.moe_latent_size", 0, "latent experts are not built"},
      {"model.glu_linear_offset", 0.0, "such a gate is not built"},
      {"model.fp32_residual_connection", false, "residuals in fp32 are not built"},
      {"model.rotary_interleaved", false, "interleaved rotary pairs are not built here", "glm"},
      {"model.drop_layers", json::array(),
       "layers that are left out are not numbered here; say the layers that stay by num_layers, "
       "and "
       "take it out"},
      {"model.optim.sched.reduce_on_plateau", false,
       "schedules that wait for the loss are not built; take it out"},
      {"model.peft", false, "training of adapters is not built"}};
  return rows;
}

Rule refused_rule() {
  Rule rule;
  rule.keys = {"model"};
  for (const Refused& row : refused()) rule.settings.emplace_back(row.setting);
  rule.read = [](Settings& from, JobDraft& to) {
    json model = to.value("model");
    if (model.is_string() && architectures::is_zoo_name(model)) model = config_of_zoo(model);
    const std::string type = model.is_object() ? model.value("model_type", "") : "";
    for (const Refused& row : refused())
      if (const Setting* setting = from.read(row.setting);
          setting != nullptr && setting->value != row.harmless &&
          (row.built_in.empty() || !type.starts_with(row.built_in)))
        from.fail(row.setting, setting->value.dump() + ": " + row.why);
  };
  rule.note = "what no model here has";
  return rule;
}

// Returns the rule for offloaded layers. Transformer Engine copies the saved activations of the
// first N layers to the host, and those of the other layers stay on the device. The job file counts
// the layers that stay (offload_horizon, at least 2).
Rule offload_rule() {
  return {{"parallelism.offload", "parallelism.offload_horizon"},
          {"model.cpu_offloading", "model.cpu_offloading_num_layers"},
          [](Settings& from, JobDraft& to) {
            const bool on = from.flag("model.cpu_offloading").value_or(false);
            const std::int64_t moved = from.whole("model.cpu_offloading_num_layers").value_or(0);
            if (!on || moved < 1) return;
            const std::int64_t layers = to.model_layers();
            to.set("parallelism.offload", "layers");
            if (layers > 0)
              to.set("parallelism.offload_horizon", std::max<std::int64_t>(2, layers - moved));
            else
              to.remark(from.spelled("model.cpu_offloading_num_layers") +
                        ": how many layers stay on the device follows from the model's; give "
                        "--set parallelism.offload_horizon");
          },
          [](const JobValues& from, Settings& to) {
            const bool on = from["parallelism.offload"] == "layers";
            to.add("model.cpu_offloading", on);
            if (on)
              to.add("model.cpu_offloading_num_layers",
                     from.model.layers - from.plan.parallelism.offload_horizon);
          },
          "the layers that stay are the horizon"};
}

// Norms that multiply by 1 + their weights cost what others cost. Gemma's are such.
Rule norms_rule() {
  static constexpr const char* name = "model.layernorm_zero_centered_gamma";
  return {{"model"},
          {name},
          [](Settings& from, JobDraft& to) {
            const json model = to.value("model");
            const std::string type = model.is_object() ? model.value("model_type", "") : "";
            if (from.flag(name).value_or(false) && !type.starts_with("gemma"))
              to.remark(from.spelled(name) +
                        ": norms multiply by their weights here, not by 1 + their weights, at the "
                        "same cost");
          },
          nullptr};
}

// Changes a named model by what the recipe sets beside its name: the vocabulary, also that of a
// tokenizer that only has a size, and the room that experts have.
void change_named_model(Settings& from, JobDraft& to) {
  json model = to.value("model");
  const bool sizes = from.flag(by_tokenizer).value_or(false);
  const bool has_only_size = from.word(tokenizer_type).value_or("") == "NullTokenizer";
  const std::optional<std::int64_t> counted = from.whole(tokenizer_words);
  std::optional<std::int64_t> words = from.whole("vocab-size");
  if (sizes && has_only_size && counted) words = counted;
  const std::optional<double> of_expert = from.number("moe-expert-capacity-factor"),
                              of_rank = from.number(rank_factor);
  if (model.is_null() || !(words || of_expert || of_rank)) return;
  if (model.is_string()) model = config_of_zoo(model);
  if (words && model.value("vocab_size", json()) != *words) {
    model["vocab_size"] = *words;
    to.remark(from.spelled("recipe.model") + ": the recipe gives it a vocabulary of " +
              std::to_string(*words) + " words");
  }
  if (of_expert && *of_expert > 0) model["expert_capacity_factor"] = *of_expert;
  if (of_rank && *of_rank > 0) model["expert_rank_capacity_factor"] = *of_rank;
  to.set("model", std::move(model));
}

// A recipe in Python names its model by its place on the Hub, or by a class of NeMo.
Rule recipe_model_rule_of_bridge() {
  static constexpr const char* name = "recipe.model";
  return {{"model"},
          {name, by_tokenizer, tokenizer_type, tokenizer_words, rank_factor},
          [](Settings& from, JobDraft& to) {
            const Setting* setting = from.read(name);
            if (setting == nullptr || to.has("model")) return;
            if (setting->value.is_string() && architectures::is_zoo_name(setting->value))
              to.set("model", model_of_zoo(setting->value));
            else
              take_named_model(from, name, to);
            change_named_model(from, to);
          },
          nullptr,
          "the model of a recipe in Python; read only"};
}

Rule recipe_machine_rule() {
  static constexpr const char* name = "recipe.machine";
  return {{"cluster.machine"},
          {name},
          [](Settings& from, JobDraft& to) {
            if (const auto machine = from.word(name)) to.set("cluster.machine", *machine);
          },
          nullptr,
          "the kind of GPU in the name of a recipe in Python; read only"};
}

}  // namespace

const Rules& bridge_rules() {
  static const Rules rules = [] {
    Rules all = {recipe_model_rule_of_bridge(), recipe_machine_rule()};
    for (const Rule& rule : megatron_rules()) all.push_back(rule);
    all.push_back(refused_rule());
    all.push_back(norms_rule());
    all.push_back(offload_rule());
    all.push_back(bridge_adapter_rule());
    return all;
  }();
  return rules;
}

}  // namespace meshwright::interop
