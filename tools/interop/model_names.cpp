#include "tools/interop/model_names.h"

#include <algorithm>
#include <cctype>

#include "models/architectures/hub_names.h"
#include "models/architectures/model.h"
#include "models/core/fields.h"

namespace meshwright::interop {

namespace {

// Models that read pictures or speech beside texts, by the beginning of their names, and the model
// of the zoo that has the shape of their language model (their config.json on the Hub).
struct LanguageModel {
  std::string_view begin, of;
};
constexpr LanguageModel language_models[] = {
    {"qwen2.5-vl-3b", "qwen2.5-3b"},
    {"qwen2.5-vl-7b", "qwen2.5-7b"},
    {"qwen2.5-vl-32b", "qwen2.5-32b"},
    {"qwen2.5-vl-72b", "qwen2.5-72b"},
    {"qwen3-vl-2b", "qwen3-1.7b"},
    {"qwen3-vl-4b", "qwen3-4b"},
    {"qwen3-vl-8b", "qwen3-8b"},
    {"qwen3-vl-32b", "qwen3-32b"},
    {"qwen3-vl-30b-a3b", "qwen3-30b-a3b"},
    {"qwen3-vl-235b-a22b", "qwen3-235b-a22b"},
    {"qwen3-omni-30b-a3b", "qwen3-30b-a3b"},
    {"gemma-3-4b", "gemma-3-4b"},
    {"gemma-3-12b", "gemma-3-12b"},
    {"gemma-3-27b", "gemma-3-27b"},
    {"glm-4.5v", "glm-4.5-air"},
    {"kimi-k2.5", "kimi-k2"},
};

constexpr std::string_view state_spaces = "has state-space layers (Mamba)";
constexpr std::string_view delta_rule = "has layers of linear attention (a gated delta rule)";
constexpr std::string_view indexer = "attends to the tokens that an indexer chooses";
constexpr std::string_view diffusion = "makes pictures by diffusion";

// Models whose layers are not built, by the beginning of their names or by the class of
// Megatron-Bridge that makes them, and why.
struct UnbuiltModel {
  std::string_view begin, why;
};
constexpr UnbuiltModel unbuilt_models[] = {
    {"nemotron-h", state_spaces},
    {"nemotron-3", state_spaces},
    {"nvidia-nemotron-3", state_spaces},
    {"nvidia-nemotron-nano", state_spaces},
    {"hybridmodelprovider", state_spaces},
    {"qwen3-next", delta_rule},
    {"qwen3.5", delta_rule},
    {"kimi-linear", delta_rule},
    {"glm-5", indexer},
    {"deepseek-v3.2", indexer},
    {"deepseek-v4", indexer},
    {"minimax-m3", indexer},
    {"ministral-3", "has queries that grow with their position in every block"},
    {"gemma-4", "has embeddings of each block"},
    {"wanmodelprovider", diffusion},
    {"fluxbridge", diffusion},
};

// Returns a name without its owner, in lower case.
std::string last_part(const std::string& name) {
  std::string last = name.substr(name.rfind('/') + 1);
  std::ranges::transform(last, last.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return last;
}

}  // namespace

std::string language_model_of(const std::string& name) {
  const std::string wanted = last_part(name);
  for (const LanguageModel& row : language_models)
    if (wanted.starts_with(row.begin)) return std::string(row.of);
  return {};
}

std::string why_unbuilt(const std::string& name) {
  const std::string wanted = last_part(name);
  for (const UnbuiltModel& row : unbuilt_models)
    if (wanted.starts_with(row.begin))
      return name + " " + std::string(row.why) +
             ", which is not built; --set model=NAME plans another model in its place";
  return {};
}

json config_of_zoo(const std::string& name) {
  const std::string file = architectures::zoo_folder() + "/" + name + ".json";
  return parse_json(read_file(file), file);
}

json model_of_zoo(const std::string& name) {
  json config = config_of_zoo(name);
  if (config.erase("expert_capacity_factor") == 0) return name;
  config["expert_rank_capacity_factor"] = architectures::Model::usual_rank_capacity_factor;
  return config;
}

std::int64_t experts_of(const JobDraft& draft) {
  json model = draft.value("model");
  if (model.is_string() && architectures::is_zoo_name(model)) model = config_of_zoo(model);
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"})
    if (model.is_object() && model.contains(key) && model[key].is_number_integer())
      return model[key].get<std::int64_t>();
  return 0;
}

void take_named_model(Settings& from, const std::string& setting, JobDraft& to) {
  const auto name = from.word(setting);
  if (!name || to.has("model")) return;
  const std::string language = language_model_of(*name);
  const std::string found = language.empty() ? zoo_name_of(*name) : "";
  if (found.empty() && language.empty()) {
    if (const std::string why = why_unbuilt(*name); !why.empty()) from.fail(setting, why);
    to.ask("model", from.spelled(setting) + " " + *name + " is not in the zoo");
    return;
  }
  to.set("model", model_of_zoo(found.empty() ? language : found));
  if (experts_of(to) > 1)
    to.remark(from.spelled(setting) +
              ": experts take all tokens that chose them, and ranks that share them have room for "
              "1.5 times an equal share; --set model.expert_rank_capacity_factor says another");
  to.remark(from.spelled(setting) + " " + *name +
            (found.empty()
                 ? ": it reads pictures or speech too; the language model alone is planned, with "
                   "the shape of " +
                       language + " of the zoo"
                 : ": the shape of " + found + " of the zoo is taken"));
}

}  // namespace meshwright::interop
