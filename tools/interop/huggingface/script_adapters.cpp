// Renames the arguments by which training scripts ask for adapters (LLaVA, Chinese-LLaMA-Alpaca,
// MedicalGPT, FastChat, Qwen) to those of trl, so that no adapter is lost.
#include <string>

#include "tools/interop/huggingface/renaming.h"

namespace meshwright::interop {

namespace {

constexpr TrainerName names_of_scripts[] = {
    {"lora_enable", "use_peft"},
    {"use_lora", "use_peft"},
    {"lora_rank", "lora_r"},
    {"lora_dim", "lora_r"},
    {"trainable", "lora_target_modules"},
    {"target_modules", "lora_target_modules"},
    {"lora_target", "lora_target_modules"},
    {"qlora", "load_in_4bit"},
    {"use_qlora", "load_in_4bit"},
};

// Returns whether a script without a switch trains adapters: by its name, by an argument that trl,
// whose switch is --use_peft, does not have, or by weights in 4 bits, which are frozen.
bool trains_adapters(const Settings& settings) {
  const Setting* program = find_setting(settings, "program");
  const std::string name =
      program != nullptr && program->value.is_string() ? program->value.get<std::string>() : "";
  return settings.has("lora_rank") || is_on(settings, "qlora") || is_on(settings, "use_qlora") ||
         name.find("lora") != std::string::npos || name.find("peft") != std::string::npos;
}

}  // namespace

void read_script_adapters(Settings& settings) {
  if (!settings.are_others_of_script() || settings.has("adapter")) return;
  const bool has_switch = settings.has("use_peft") || settings.has("lora_enable") ||
                          settings.has("use_lora") || settings.has("finetuning_type");
  const bool adapts = trains_adapters(settings);
  for (const TrainerName& row : names_of_scripts) rename_setting(settings, row.other, row.name);
  const Setting* rank = find_setting(settings, "lora_r");
  if (rank == nullptr || has_switch) return;
  if (adapts) {
    settings.note(settings.where(*rank) + "no setting turns adapters on or off; they are planned");
    imply_setting(settings, "use_peft", true, "lora_r");
  } else {
    settings.note(settings.where(*rank) +
                  "no setting turns adapters on: all weights are trained; --set "
                  "training.lora.rank=NUMBER plans adapters");
  }
}

}  // namespace meshwright::interop
