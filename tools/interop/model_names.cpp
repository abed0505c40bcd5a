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
    {"qwen2.5-vl-3b", "qwen2.5-3b"},           {"qwen2.5-vl-7b", "qwen2.5-7b"},
    {"qwen2.5-vl-32b", "qwen2.5-32b"},         {"qwen2.5-vl-72b", "qwen2.5-72b"},
    {"qwen3-vl-2b", "qwen3-1.7b"},             {"qwen3-vl-4b", "qwen3-4b"},
    {"qwen3-vl-8b", "qwen3-8b"},               {"qwen3-vl-32b", "qwen3-32b"},
    {"qwen3-vl-30b-a3b", "qwen3-30b-a3b"},     {"qwen3-vl-235b-a22b", "qwen3-235b-a22b"},
    {"qwen3-omni-30b-a3b", "qwen3-30b-a3b"},
};

}  // namespace

std::string language_model_of(const std::string& name) {
  std::string wanted = name.substr(name.rfind('/') + 1);
  std::ranges::transform(wanted, wanted.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const LanguageModel& row : language_models)
    if (wanted.starts_with(row.begin)) return std::string(row.of);
  return {};
}

json config_of_zoo(const std::string& name) {
  const std::string file = architectures::zoo_folder() + "/" + name + ".json";
  return parse_json(read_file(file), file);
}

json model_of_zoo(const std::string& name) {
  json config = config_of_zoo(name);
  return config.erase("expert_capacity_factor") > 0 ? config : json(name);
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
  const std::string found = zoo_name_of(*name);
  const std::string language = found.empty() ? language_model_of(*name) : "";
  if (found.empty() && language.empty()) {
    to.ask("model", from.spelled(setting) + " " + *name + " is not in the zoo");
    return;
  }
  to.set("model", model_of_zoo(found.empty() ? language : found));
  to.remark(from.spelled(setting) + " " + *name +
            (found.empty()
                 ? ": it reads pictures or speech too; the language model alone is planned, with "
                   "the shape of " +
                       language + " of the zoo"
                 : ": the shape of " + found + " of the zoo is taken"));
}

}  // namespace meshwright::interop
