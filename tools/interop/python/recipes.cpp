#include "tools/interop/python/recipes.h"

#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/python/evaluator.h"

namespace meshwright::interop {

namespace {

// Models that recipes of NeMo 2 name by a class (nemo/collections/llm/gpt/model).
struct NemoModel {
  std::string_view type, model;
};
constexpr NemoModel nemo_models[] = {
    {"Llama2Config7B", "llama-2-7b"},
    {"Llama2Config13B", "llama-2-13b"},
    {"Llama2Config70B", "llama-2-70b"},
    {"Llama3Config8B", "llama-3-8b"},
    {"Llama3Config70B", "llama-3-70b"},
    {"Llama31Config8B", "llama-3.1-8b"},
    {"Llama31Config70B", "llama-3.1-70b"},
    {"Llama31Config405B", "llama-3-405b"},
    {"Llama31Nemotron70BConfig", "llama-3.1-70b"},
    {"Llama31NemotronNano8BConfig", "llama-3.1-8b"},
    {"Llama32Config1B", "llama-3.2-1b"},
    {"Llama32Config3B", "llama-3.2-3b"},
    {"Llama4Experts16Config", "llama-4-scout-17b-16e"},
    {"Llama4Experts128Config", "llama-4-maverick-17b-128e"},
    {"MistralConfig7B", "mistral-7b-v0.1"},
    {"MistralNeMoConfig12B", "mistral-nemo-base-2407"},
    {"MixtralConfig8x7B", "mixtral-8x7b"},
    {"MixtralConfig8x22B", "mixtral-8x22b"},
    {"GPTConfig175B", "gpt3-175b"},
    {"GPTOSSConfig20B", "gpt-oss-20b"},
    {"GPTOSSConfig120B", "gpt-oss-120b"},
    {"DeepSeekV2LiteConfig", "deepseek-v2-lite"},
    {"DeepSeekV3Config", "deepseek-v3"},
    {"GemmaConfig2B", "gemma-2b"},
    {"GemmaConfig7B", "gemma-7b"},
    {"Gemma2Config2B", "gemma-2-2b"},
    {"Gemma2Config9B", "gemma-2-9b"},
    {"Gemma2Config27B", "gemma-2-27b"},
    {"Phi3ConfigMini", "phi-3-mini-4k-instruct"},
    {"StarcoderConfig15B", "starcoder"},
    {"Starcoder2Config3B", "starcoder2-3b"},
    {"Starcoder2Config7B", "starcoder2-7b"},
    {"Starcoder2Config15B", "starcoder2-15b"},
    {"Qwen2Config500M", "qwen2-0.5b"},
    {"Qwen2Config1P5B", "qwen2-1.5b"},
    {"Qwen2Config7B", "qwen2-7b"},
    {"Qwen2Config72B", "qwen2-72b"},
    {"Qwen25Config500M", "qwen2.5-0.5b"},
    {"Qwen25Config1P5B", "qwen2.5-1.5b"},
    {"Qwen25Config3B", "qwen2.5-3b"},
    {"Qwen25Config7B", "qwen2.5-7b"},
    {"Qwen25Config14B", "qwen2.5-14b"},
    {"Qwen25Config32B", "qwen2.5-32b"},
    {"Qwen25Config72B", "qwen2.5-72b"},
    {"Qwen3Config600M", "qwen3-0.6b"},
    {"Qwen3Config1P7B", "qwen3-1.7b"},
    {"Qwen3Config4B", "qwen3-4b"},
    {"Qwen3Config8B", "qwen3-8b"},
    {"Qwen3Config14B", "qwen3-14b"},
    {"Qwen3Config32B", "qwen3-32b"},
    {"Qwen3Config30B_A3B", "qwen3-30b-a3b"},
    {"Qwen3Config235B_A22B", "qwen3-235b-a22b"},
};

std::string last_word(const json& of) {
  const std::string text = of.is_string() ? of.get<std::string>() : "";
  return text.substr(text.rfind('.') + 1);
}

json item(const json& of, std::string_view name) {
  return of.is_object() && of.contains(std::string(name)) ? of[std::string(name)] : json();
}

class RecipeSettings {
 public:
  RecipeSettings(std::string place, std::string file) : place_(std::move(place)) {
    settings_.is_of(std::move(file));
  }

  void add(const std::string& name, const json& value) {
    if (value.is_null() || is_open_value(value)) return;
    settings_.add(name, value, place_);
  }
  // Adds the items of an object as settings, those of inner objects with a dot.
  void add_items(const std::string& before, const json& of) {
    if (!of.is_object()) return;
    for (const auto& [name, value] : of.items()) {
      const bool is_private = name.starts_with('_');  // a helper's, or made_by
      if (is_private || std::isdigit(static_cast<unsigned char>(name[0])) != 0) continue;
      if (value.is_object())
        add_items(before + name + ".", value);
      else
        add(before + name, value);
    }
  }
  void take_out(const std::string& name) { settings_.remove(name); }
  void note(const std::string& text) { settings_.note(place_ + ": " + text); }
  Settings& settings() { return settings_; }
  const std::string& place() const { return place_; }

 private:
  std::string place_;
  Settings settings_{"", true};
};

// Adapters: default_peft_config("lora", dim=8) of Bridge, run.Config(LoRA) of NeMo.
void add_adapter(const json& peft, RecipeSettings& to) {
  if (peft.is_string()) return to.add("peft", peft);
  if (!peft.is_object()) return;
  const std::string type = last_word(item(peft, made_by));
  const json first = item(peft, "0");
  const bool by_word = first.is_string() && !is_open_value(first);
  to.add("peft", by_word                                            ? first
                 : type == "LoRA" || type == "lora" || type.empty() ? json("lora")
                                                                    : json(type));
  for (const char* name : {"dim", "alpha", "dropout", "target_modules"})
    to.add(std::string("peft.") + name, item(peft, name));
}

// A recipe of mixed precision: its name, a function of that name, or one that takes a short word.
void add_precision(const json& precision, RecipeSettings& to) {
  if (precision.is_string()) return to.add("mixed_precision", precision);
  if (!precision.is_object()) return;
  const json given = item(precision, "0");
  std::string word = last_word(item(precision, made_by));
  if (given.is_string() && !is_open_value(given)) word = given;
  constexpr std::pair<std::string_view, std::string_view> short_words[] = {
      {"bf16", "bf16_mixed"},
      {"fp8_cs", "bf16_with_fp8_current_scaling_mixed"},
      {"fp8_ds", "bf16_with_fp8_delayed_scaling_mixed"},
      {"fp8_sc", "bf16_with_fp8_subchannel_scaling_mixed"},
      {"fp8_mx", "bf16_with_mxfp8_mixed"},
      {"nvfp4", "bf16_with_nvfp4_mixed"}};
  for (const auto& [one, whole] : short_words)
    if (word == one) word = whole;
  // NeMo's plugin has the word as an argument: "bf16-mixed".
  if (const json named = item(precision, "precision"); named.is_string()) {
    word = named;
    std::ranges::replace(word, '-', '_');
  }
  if (word.ends_with("_mixed")) to.add("mixed_precision", word);
  to.add_items("mixed_precision.", precision);
  to.take_out("mixed_precision.precision");
}

// NeMo's names of a trainer, a strategy and data, under those of Megatron-Bridge.
void add_nemo(const json& recipe, RecipeSettings& to) {
  const json trainer = item(recipe, "trainer"), model = item(recipe, "model"),
             data = item(recipe, "data"), optim = item(recipe, "optim");
  const json strategy = item(trainer, "strategy"), config = item(model, "config");
  const std::string type = last_word(item(config, made_by));
  for (const NemoModel& row : nemo_models)
    if (type == row.type) to.add("recipe.model", row.model);
  if (!to.settings().has("recipe.model")) to.add("recipe.model", type.empty() ? "unknown" : type);
  to.add("torchrun.nnodes", item(trainer, "num_nodes"));
  to.add("torchrun.nproc-per-node", item(trainer, "devices"));
  to.add("train.train_iters", item(trainer, "max_steps"));
  to.add_items("model.", config);
  for (const char* name :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size",
        "virtual_pipeline_model_parallel_size", "context_parallel_size",
        "expert_model_parallel_size", "expert_tensor_parallel_size", "sequence_parallel",
        "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
        "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"})
    to.add(std::string("model.") + name, item(strategy, name));
  // NeMo leaves the degree to Megatron-Core, which splits experts over the tensor group.
  if (!to.settings().has("model.expert_tensor_parallel_size"))
    to.add("model.expert_tensor_parallel_size", item(strategy, "tensor_model_parallel_size"));
  to.add_items("ddp.", item(strategy, "ddp"));
  const json length = item(data, "seq_length");
  to.add("dataset.sequence_length", length.is_null() ? item(config, "seq_length") : length);
  to.take_out("model.seq_length");
  to.add("train.global_batch_size", item(data, "global_batch_size"));
  to.add("train.micro_batch_size", item(data, "micro_batch_size"));
  json plugins = item(trainer, "plugins");
  if (plugins.is_array() && !plugins.empty()) plugins = json(plugins[0]);
  add_precision(plugins, to);
  const json made = item(optim, "config");
  to.add("optimizer.lr", item(made, "lr").is_null() ? item(optim, "max_lr") : item(made, "lr"));
  to.add("optimizer.use_distributed_optimizer", item(made, "use_distributed_optimizer"));
  to.add("optimizer.adam_beta2", item(optim, "adam_beta2"));
  to.add("scheduler.lr_warmup_iters", item(optim, "warmup_steps"));
  to.add("optimizer.clip_grad", item(optim, "clip_grad"));
  add_adapter(item(recipe, "peft"), to);
  const json callbacks = item(trainer, "callbacks");
  if (callbacks.is_array())
    for (const json& each : callbacks)
      if (last_word(item(each, made_by)) == "MegatronCommOverlapCallback")
        to.add_items("comm_overlap.", each);
  to.take_out("comm_overlap.tp_comm_overlap_cfg");
}

// Machines with the GPUs that names of recipes say. Hosts of a rack share NVLink, and count as one.
struct NamedGpu {
  std::string_view word, machine;  // without a machine: none is known here
  int of_host;
};
constexpr NamedGpu named_gpus[] = {
    {"gb200", "gb200-nvl72", 72}, {"gb300", "gb300-nvl72", 72}, {"vr200", "", 72},
    {"h100", "dgx-h100", 8},      {"h200", "dgx-h200", 8},      {"b200", "dgx-b200", 8},
    {"b300", "dgx-b300", 8},
};

// "llama3_8b_pretrain_16gpu_h100_bf16_config" is a recipe for 16 GPUs of the kind H100.
void add_ranks(const std::string& name, RecipeSettings& to) {
  const std::size_t at = name.find("gpu_");
  std::size_t begin = at;
  while (begin != std::string::npos && begin > 0 &&
         std::isdigit(static_cast<unsigned char>(name[begin - 1])) != 0)
    --begin;
  constexpr std::size_t most_digits = 6;
  if (at == std::string::npos || begin == at || at - begin > most_digits) return;
  const int gpus = std::stoi(name.substr(begin, at - begin));
  const std::string after = name.substr(at + 4);
  NamedGpu gpu{"", "", 8};
  for (const NamedGpu& row : named_gpus)
    if (after.starts_with(row.word)) gpu = row;
  int each = std::max(1, std::min(gpus, gpu.of_host));
  while (gpus % each != 0) --each;
  to.add("torchrun.nnodes", gpus / each);
  to.add("torchrun.nproc-per-node", each);
  if (!gpu.machine.empty()) to.add("recipe.machine", gpu.machine);
  to.note("the name of the recipe says " + std::to_string(gpus) + " GPUs; they are taken as " +
          std::to_string(gpus / each) + " x " + std::to_string(each) +
          (gpu.machine.empty() ? "" : " of " + std::string(gpu.machine)) +
          "; --set cluster.machine says another machine");
}

void add_bridge(const std::string& name, const json& recipe, RecipeSettings& to) {
  const std::string base = last_word(item(recipe, made_by));
  if (!base.empty() && base != "ConfigContainer" && base[0] != '_')
    throw InputError(to.place() + ": " + name + " begins with " + base +
                     "() of another file, which was not found; give the file of that recipe, or "
                     "keep it in its package");
  const json model = item(recipe, "model");
  const json from = item(model, "0");
  const std::string type = last_word(item(model, made_by));
  if (from.is_string() && !is_open_value(from))
    to.add("recipe.model", from);
  else if (type == "OlMoEModelProvider")
    to.add("recipe.model", "olmoe-1b-7b-0924");
  else if (type == "Gemma3ModelProvider" && item(model, "hidden_size") == 1152)
    to.add("recipe.model", "gemma-3-1b");
  else if (!type.empty() && type != "GPTModelProvider" && type != "from_hf_config")
    to.add("recipe.model", type);
  for (const auto& [section, value] : recipe.items()) {
    if (section == made_by || section == "env_vars") continue;
    if (section == "mixed_precision") {
      add_precision(value, to);
    } else if (section == "peft") {
      add_adapter(value, to);
    } else if (value.is_object()) {
      to.add_items(section + ".", value);
    }
  }
  // The first ones are arguments with which the model is fetched from the Hub.
  for (const char* other : {"model.revision", "model.hf_model_revision", "model.trust_remote_code",
                            "model.activation_func", "comm_overlap.tp_comm_overlap_cfg"})
    to.take_out(other);
  const json scheduler = item(recipe, "scheduler");
  if (const json rate = item(scheduler, "max_lr"); !rate.is_null()) {
    to.take_out("scheduler.max_lr");
    if (!to.settings().has("optimizer.lr")) to.add("optimizer.lr", rate);
  }
  add_ranks(name, to);
}

// The functions that return a whole configuration, and are no helpers.
std::vector<std::string> recipes_of(const PythonFile& program, bool is_nemo) {
  std::vector<std::string> names;
  for (const auto& [name, function] : program.functions()) {
    const bool changes_one = std::ranges::any_of(function.parameters, [](const auto& parameter) {
      return parameter.first == "recipe" || parameter.first == "cfg";
    });
    const auto holds = [&](const char* part) { return name.find(part) != std::string::npos; };
    const bool trains = holds("pretrain") || holds("finetune") || holds("sft") || holds("peft");
    const bool is_one = trains && holds(is_nemo ? "recipe" : "config");
    if (is_one && !changes_one && name[0] != '_') names.push_back(name);
  }
  return names;
}

}  // namespace

bool has_recipes(const std::string& text) {
  const auto holds = [&](const char* part) { return text.find(part) != std::string::npos; };
  return (holds("ConfigContainer") && holds("megatron.bridge")) ||
         (holds("run.Partial") && holds("nemo"));
}

Settings read_recipe(const std::string& text, const std::string& file,
                     const std::map<std::string, std::string>& defines) {
  PythonWork work;
  PythonFile program(file, work);
  program.read(text);
  const bool is_nemo = text.find("run.Partial") != std::string::npos;
  const std::vector<std::string> names = recipes_of(program, is_nemo);
  if (names.empty())
    throw InputError(file +
                     ": no function of it returns a recipe of its own (a ConfigContainer or "
                     "a run.Partial); give the file that has the recipe");
  const auto asked = defines.find("recipe");
  std::string name = names[0];
  if (asked != defines.end() && std::ranges::find(names, asked->second) != names.end())
    name = asked->second;
  else if (names.size() > 1)
    throw InputError(file + ": holds " + std::to_string(names.size()) +
                     " recipes; choose one with --define recipe=NAME: " + list_of(names));
  // The parameters of the recipe are as they are declared, unless --define gives them.
  json given = json::object();
  for (const auto& [parameter, value] : defines) {
    const json parsed = json::parse(value, nullptr, false);
    given[parameter] = parsed.is_discarded() ? json(value) : parsed;
  }
  const json recipe = program.call(name, given);
  if (!work.raised.empty()) throw InputError(work.raised);
  RecipeSettings to(place_at(file, program.functions().at(name).line), file);
  if (!recipe.is_object())
    throw InputError(to.place() + ": " + name + " returns nothing that could be followed");
  is_nemo ? add_nemo(recipe, to) : add_bridge(name, recipe, to);
  for (const std::string& call : work.unknown)
    to.note(call + "() changes the recipe in another file, which is not read");
  return std::move(to.settings());
}

}  // namespace meshwright::interop
