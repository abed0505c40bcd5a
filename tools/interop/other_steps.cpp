#include "tools/interop/other_steps.h"

#include <algorithm>

#include "tools/interop/huggingface/renaming.h"

namespace meshwright::interop {

namespace {

struct OtherStep {
  std::string_view name;
  std::string_view why;
};

constexpr std::string_view optimizers =
    "such an optimizer is not built; adamw, adafactor, lion, sgd and muon are; take it out";
constexpr std::string_view on_device =
    "parameters and states stay on the device here, and memory is predicted so; --set "
    "parallelism.offload=optimizer moves the optimizer's states";
constexpr std::string_view activations_on_device =
    "saved activations stay on the device here, and memory is predicted so; --set "
    "parallelism.offload=activations moves those that recomputation keeps";
constexpr std::string_view curriculum =
    "every step is planned with sequences of the full length; the first ones are shorter";
constexpr std::string_view all_tokens = "every layer computes all tokens here";
constexpr std::string_view all_scores = "every token attends to all before it here";
constexpr std::string_view unquantized = "weights are trained without quantization here";

constexpr std::string_view projector =
    "a projector beside a frozen language model is trained there, which is not built; take it out";

constexpr OtherStep refused[] = {
    {"tune_mm_mlp_adapter", projector},
    {"freeze_language_model", projector},
    {"freeze_backbone", projector},
    {"freeze_llm", projector},
    {"gptq", "weights that GPTQ has quantized are not built; those in 4 bits of bitsandbytes are"},
    {"use_galore", optimizers},
    {"use_apollo", optimizers},
    {"use_badam", optimizers},
    {"use_adam_mini", optimizers},
    {"lisa_n_layers", "LISA trains few layers at a time, which is not planned; take it out"},
    {"mixture_of_depths", "every layer computes all tokens here; take it out"},
    {"use_onebitllms", "weights of one bit are not built; take it out"},
    {"use_kt", "experts that the host's CPU computes are not built; take it out"},
    {"compression_training.layer_reduction.enabled",
     "the model that is trained has fewer layers; give its config.json, and take it out"},
};

constexpr OtherStep noted[] = {
    {"vision_tower", "the vision tower is left out; the language model alone is planned"},
    {"image_max_pixels", "images are left out; the language model alone is planned"},
    {"modules_to_save", "these are trained whole there, and only adapters here"},
    {"lora_modules_to_save", "these are trained whole there, and only adapters here"},
    {"unfrozen_parameters", "only these parameters are trained there, and all of them here"},
    {"lora_target_parameters", "adapters of experts' parameters are left out"},
    {"relora", "adapters are not merged into the weights between steps here"},
    {"tiled_mlp", "MLPs compute whole sequences here, and memory is predicted so"},
    {"optimizer_in_bwd", "gradients stay until the step here, and memory is predicted so"},
    {"use_asft_loss", "the second model that such a loss needs is not planned"},
    {"activation_offloading", activations_on_device},
    {"enable_activation_offloading", activations_on_device},
    {"load_in_8bit", "frozen weights have 16 bits here, not 8, and memory is predicted so"},
    {"fsdp_config.fsdp_offload_params", on_device},
    {"fsdp_config.offload_params", on_device},
    {"fsdp_cpu_offload", on_device},
    {"cpu_offload", on_device},
    {"cpu_optimizer", on_device},
    {"optimizer_cpu_offload", on_device},
    {"deepspeed_config.offload_optimizer_device", on_device},
    {"deepspeed_config.offload_param_device", on_device},
    {"zero_optimization.offload_optimizer.device", on_device},
    {"zero_optimization.offload_param.device", on_device},
    {"zero_optimization.cpu_offload", on_device},
    {"checkpoint_in_cpu", activations_on_device},
    {"curriculum_learning.enabled", curriculum},
    {"data_efficiency.data_sampling.curriculum_learning.enabled", curriculum},
    {"data_efficiency.data_routing.random_ltd.enabled", all_tokens},
    {"progressive_layer_drop.enabled", "all blocks take part in every step here"},
    {"sparse_attention.mode", all_scores},
    {"quantize_training.enabled", unquantized},
    {"compression_training.weight_quantization.shared_parameters.enabled", unquantized},
    {"compression_training.activation_quantization.shared_parameters.enabled", unquantized},
};

bool is_asked_for(const json& value) {
  return !is_off(value) && value != "0" && value != 0 && !(value.is_array() && value.empty());
}

// Returns whether a model's name on the Hub has a part that says that its weights are quantized.
bool names_quantized_weights(const std::string& name) {
  for (const char* part : {"GPTQ", "AWQ", "AQLM", "-Int4", "-Int8", "-4bit", "-8bit"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

// Throws InputError if the settings are those of a program that generates text. The same commands
// start such programs and those that train.
void refuse_generation(const Settings& settings) {
  constexpr const char* why = "the program generates text; give the start of one that trains";
  for (const char* name : {"gen_len", "prompt_len", "max_new_tokens"})
    if (settings.has("program") && settings.has(name)) settings.fail(name, why);
  for (const char* name : {"inference_max_seq_length", "inference_dynamic_batching"})
    if (settings.has(name)) settings.fail(name, why);
}

}  // namespace

void check_other_steps(Settings& settings) {
  refuse_generation(settings);
  for (const OtherStep& row : refused)
    if (const Setting* found = find_setting(settings, row.name);
        found != nullptr && is_asked_for(found->value))
      settings.fail(row.name, std::string(row.why));
  for (const OtherStep& row : noted)
    if (const Setting* found = find_setting(settings, row.name);
        found != nullptr && is_asked_for(found->value))
      settings.note(settings.where(*found) + std::string(row.why));
  if (const Setting* model = find_setting(settings, "model_name_or_path");
      model != nullptr && model->value.is_string() && !is_on(settings, "load_in_4bit") &&
      names_quantized_weights(model->value.get_ref<const std::string&>()))
    settings.note(
        settings.where(*model) + model->value.get<std::string>() +
        ": its weights are quantized; here they have 16 bits, and memory is predicted so");
}

}  // namespace meshwright::interop
