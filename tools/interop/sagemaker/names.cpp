// Translates the names in SageMaker's API requests and in transformers' scripts to those of the
// rules, which are the names of the estimator and of the examples of the model parallel library.
#include <algorithm>

#include "models/core/fields.h"
#include "tools/interop/sagemaker/sagemaker.h"

namespace meshwright::interop {

namespace {

struct SageMakerName {
  std::string_view other, name;
};
constexpr SageMakerName other_names[] = {
    {"hyperparameters.learning_rate", "hyperparameters.lr"},
    {"hyperparameters.lr_scheduler_type", "hyperparameters.lr_decay_style"},
    {"hyperparameters.warmup_ratio", "hyperparameters.warmup"},
    {"hyperparameters.max_grad_norm", "hyperparameters.grad_clip"},
    {"hyperparameters.adam_beta1", "hyperparameters.beta1"},
    {"hyperparameters.adam_beta2", "hyperparameters.beta2"},
    {"hyperparameters.rotary_emb_base", "hyperparameters.rope_theta"},
    {"hyperparameters.use_smp_flash_attn", "hyperparameters.use_flash_attn"},
    {"hyperparameters.max_length", "hyperparameters.max_seq_length"},
    {"train_instance_type", "instance_type"},
    {"train_instance_count", "instance_count"},
    {"ResourceConfig.InstanceType", "instance_type"},
    {"ResourceConfig.InstanceCount", "instance_count"},
};

const Setting* find(const Settings& settings, std::string_view name) {
  for (const Setting& each : settings.all())
    if (same_name(each.name, name)) return &each;
  return nullptr;
}

void move(Settings& settings, const std::string& other, const std::string& name, json value) {
  const Setting* found = find(settings, other);
  if (found == nullptr) return;
  const std::string place = found->place, spelling = settings.spelled(found->name);
  settings.remove(other);
  if (settings.has(name)) return;
  settings.add(name, std::move(value), place);
  settings.show_as(name, spelling);
}

// Translates a CreateTrainingJob request, whose hyperparameters are strings of JSON.
void read_request(Settings& settings) {
  constexpr std::string_view before = "HyperParameters.";
  for (const Setting& each : std::vector<Setting>(settings.all())) {
    if (!each.name.starts_with(before)) continue;
    json value = each.value;
    if (value.is_string()) {
      json inner = json::parse(value.get<std::string>(), nullptr, false);
      if (!inner.is_discarded()) value = std::move(inner);
    }
    const std::string key = each.name.substr(before.size());
    const std::string name =
        key == "sagemaker_torch_distributed_enabled" ? "distribution.torch_distributed.enabled"
        : key == "sagemaker_mpi_enabled"             ? "distribution.mpi.enabled"
        : key == "sagemaker_mpi_num_of_processes_per_host" ? "distribution.mpi.processes_per_host"
                                                           : "hyperparameters." + key;
    move(settings, each.name, name, std::move(value));
  }
  for (const Setting& each : std::vector<Setting>(settings.all()))
    if (std::isupper(static_cast<unsigned char>(each.name[0])) != 0 &&
        !each.name.starts_with("ResourceConfig.Instance") && !each.name.starts_with("SM_"))
      move(settings, each.name, "request." + each.name, each.value);
}

}  // namespace

Settings with_names_of_estimator(Settings settings, const JobDraft&) {
  read_request(settings);
  for (const SageMakerName& row : other_names)
    if (const Setting* found = find(settings, row.other); found != nullptr)
      move(settings, std::string(row.other), std::string(row.name), json(found->value));
  if (const Setting* style = find(settings, "hyperparameters.lr_decay_style");
      style != nullptr && style->value.is_string()) {
    const std::string word = style->value, place = style->place;
    const bool is_flat = word.starts_with("constant");
    if (is_flat || (word != "linear" && word != "cosine")) {
      if (!is_flat)
        settings.note(place + ": " + settings.spelled(style->name) + " " + word +
                      ": the rate falls linearly here");
      settings.add("hyperparameters.lr_decay_style", is_flat ? "constant" : "linear", place);
    }
  }
  return settings;
}

Rule compiler_rule() {
  return {{"training.compiler"},
          {"compiler_config", "compiler_config.enabled", "compiler_config.debug"},
          [](Settings& from, JobDraft& to) {
            const bool is_there = from.has("compiler_config") ||
                                  from.has("compiler_config.enabled") ||
                                  from.has("compiler_config.debug");
            const bool on = from.flag("compiler_config.enabled")
                                .value_or(from.flag("compiler_config").value_or(true));
            from.flag("compiler_config.debug");
            if (is_there) to.set("training.compiler", on ? "full" : "none");
          },
          nullptr,
          "SageMaker Training Compiler"};
}

Rule fsdp_words_rule() {
  return {{"parallelism.zero_stage", "parallelism.reshard_after_forward"},
          {"hyperparameters.fsdp"},
          [](Settings& from, JobDraft& to) {
            const auto words = from.word("hyperparameters.fsdp");
            if (!words || words->empty()) return;
            const bool full = words->find("full_shard") != std::string::npos;
            const bool keeps = words->find("shard_grad_op") != std::string::npos;
            if (!full && !keeps)
              from.fail("hyperparameters.fsdp",
                        "'" + *words + "': full_shard and shard_grad_op are read");
            to.set("parallelism.zero_stage", 3);
            to.set("parallelism.reshard_after_forward", full ? "always" : "never");
          },
          nullptr,
          "the Trainer's words"};
}

}  // namespace meshwright::interop
