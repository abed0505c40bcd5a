// Renames the settings of NeMo AutoModel's recipes (0.3, examples/llm_*) to torchtitan's. Both
// train with FSDP 2 and with PyTorch's tensor, context, pipeline and expert parallelism.
#include <algorithm>
#include <cctype>
#include <string>

#include "tools/interop/huggingface/renaming.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

constexpr TrainerName of_automodel[] = {
    {"model.config.pretrained_model_name_or_path", "model.pretrained_model_name_or_path"},
    {"step_scheduler.global_batch_size", "training.global_batch_size"},
    {"step_scheduler.local_batch_size", "training.local_batch_size"},
    {"step_scheduler.max_steps", "training.steps"},
    {"distributed.tp_size", "parallelism.tensor_parallel_degree"},
    {"distributed.cp_size", "parallelism.context_parallel_degree"},
    {"distributed.pp_size", "parallelism.pipeline_parallel_degree"},
    {"distributed.ep_size", "parallelism.expert_parallel_degree"},
    {"distributed.dp_replicate_size", "parallelism.data_parallel_replicate_degree"},
    {"distributed.sequence_parallel", "parallelism.enable_sequence_parallel"},
    {"distributed.pipeline.pp_microbatch_size", "parallelism.pipeline_parallel_microbatch_size"},
    {"distributed.pipeline.layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage"},
    {"lr_scheduler.lr_warmup_steps", "lr_scheduler.warmup_steps"},
    {"clip_grad_norm.max_norm", "training.max_norm"},
    {"compile.enabled", "compile.enable"},
    {"fp8.enabled", "float8.enable_float8_linear"},
    {"fp8.enable_fsdp_float8_all_gather", "float8.enable_fsdp_float8_all_gather"},
    {"benchmark.num_nodes", "torchrun.nnodes"},
    {"peft.dim", "lora_r"},
    {"peft.alpha", "lora_alpha"},
    {"peft.dropout", "lora_dropout"},
    {"quantization.load_in_4bit", "load_in_4bit"},
    {"quantization.bnb_4bit_use_double_quant", "bnb_4bit_use_double_quant"},
    {"quantization.bnb_4bit_quant_type", "bnb_4bit_quant_type"},
};

// Names that AutoModel and torchtitan have in common.
constexpr std::string_view titan_names[] = {"optimizer.name",
                                            "optimizer.lr",
                                            "optimizer.beta1",
                                            "optimizer.beta2",
                                            "optimizer.eps",
                                            "optimizer.weight_decay",
                                            "lr_scheduler.warmup_steps",
                                            "lr_scheduler.decay_type",
                                            "lr_scheduler.decay_ratio",
                                            "compile.enable"};

// Settings of AutoModel that change no plan, or that other functions of this file read before. A
// name that ends with `.` or `_` stands for all names that begin with it.
constexpr std::string_view without_effect[] = {"recipe",
                                               "seed",
                                               "nvtx",
                                               "dataset",
                                               "step_scheduler.",
                                               "dist_env.",
                                               "rng.",
                                               "model.backend.",
                                               "model._target_",
                                               "model.config.",
                                               "model.text_config.",
                                               "model.trust_remote_code",
                                               "model.torch_dtype",
                                               "model.use_liger_kernel",
                                               "model.use_sdpa_patching",
                                               "model.sdpa_method",
                                               "model.attn_implementation",
                                               "model.output_hidden_states",
                                               "model.force_hf",
                                               "model.use_cache",
                                               "model.load_base_model",
                                               "model.mtp_loss_scaling_factor",
                                               "model.num_nextn_predict_layers",
                                               "model.router_aux_loss_coef",
                                               "distributed.enable_async_tensor_parallel",
                                               "recipe.",
                                               "parallelizer.",
                                               "autocast.",
                                               "moe_metrics.",
                                               "_validation_",
                                               "skypilot.",
                                               "distributed.enable_fsdp2_prefetch",
                                               "distributed.mp_policy.",
                                               "distributed_config.",
                                               "model.hf_kwargs.",
                                               "distributed._target_",
                                               "distributed.strategy",
                                               "distributed.backend",
                                               "distributed.activation_checkpointing",
                                               "distributed.moe.",
                                               "distributed.pipeline.",
                                               "distributed.defer_fsdp_grad_sync",
                                               "optimizer.",
                                               "peft.",
                                               "quantization.",
                                               "fp8.",
                                               "loss_fn.",
                                               "dataset.",
                                               "dataloader.",
                                               "tokenizer.",
                                               "processor.",
                                               "packed_sequence.",
                                               "validation_",
                                               "freeze_config.",
                                               "lr_scheduler.",
                                               "clip_grad_norm.",
                                               "compile.",
                                               "wandb.",
                                               "mlflow.",
                                               "comet.",
                                               "logger.",
                                               "logging.",
                                               "benchmark.",
                                               "ci.",
                                               "slurm.",
                                               "checkpoint."};

// Adds the prefix "automodel." to the settings in without_effect. A row of the target's
// WithoutMeaning explains this prefix.
void set_aside(Settings& settings) {
  const std::vector<Setting> all = settings.all();
  for (const Setting& each : all) {
    const bool is_known = std::ranges::find(titan_names, each.name) != std::end(titan_names);
    const bool is_without_effect = std::ranges::any_of(without_effect, [&](std::string_view name) {
      return name.ends_with('.') || name.ends_with('_') ? each.name.starts_with(name)
                                                        : each.name == name;
    });
    if (is_known || !is_without_effect) continue;
    settings.remove(each.name);
    settings.add("automodel." + each.name, each.value, each.place);
    settings.show_as("automodel." + each.name, each.name);
  }
}

constexpr const char* batch = "step_scheduler.local_batch_size";

std::string automodel_text(const Settings& settings, std::string_view name) {
  const Setting* found = find_setting(settings, name);
  return found != nullptr && found->value.is_string() ? found->value.get<std::string>() : "";
}

// Throws InputError for recipes that train on another objective than the next token, or on more
// than texts, and for ways to train that are not built.
void refuse_other_recipes(const Settings& settings) {
  const std::string recipe = automodel_text(settings, "recipe"),
                    builder = automodel_text(settings, "model._target_");
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  if (!recipe.empty() && (!has(recipe, "NextTokenPrediction") || has(recipe, "Distill")))
    settings.fail("recipe", recipe +
                                ": such a recipe of AutoModel is not read; those that train "
                                "on the next token of texts are");
  for (const char* kind :
       {"ImageTextToText", "Multimodal", "BiEncoder", "CrossEncoder", "SequenceClassification",
        "Seq2Seq", "drafter", "Diffusion", "retrieval"})
    if (has(builder, kind))
      settings.fail("model._target_", builder +
                                          ": such models of AutoModel are not read; those "
                                          "of NeMoAutoModelForCausalLM are");
  if (const Setting* ahead = find_setting(settings, "model.num_nextn_predict_layers");
      ahead != nullptr && !is_off(ahead->value) && ahead->value != 0)
    settings.fail(
        "model.num_nextn_predict_layers",
        "is not read; take it out, and give --set training.mtp_layers=" + ahead->value.dump());
  for (const char* name : {"peft.use_dora", "teacher_model.pretrained_model_name_or_path",
                           "qat.quantizer_config", "qat.enabled"})
    if (const Setting* found = find_setting(settings, name);
        found != nullptr && !is_off(found->value))
      settings.fail(name, "is not built; take it out");
}

// Sets the sequence length. If sequences are packed, it is the length of a pack.
void read_length(Settings& settings) {
  const Setting* packed = find_setting(settings, "packed_sequence.packed_sequence_size");
  const bool packs = packed != nullptr && packed->value.is_number() && packed->value > 0;
  for (const char* name :
       {packs ? "packed_sequence.packed_sequence_size" : "dataset.seq_length", "dataset.seq_length",
        "dataset.seq_len", "dataset.max_length", "dataloader.collate_fn.max_length"})
    if (settings.has(name) && !settings.has("training.seq_len"))
      rename_setting(settings, name, "training.seq_len");
}

constexpr std::pair<std::string_view, const char*> schedule_words[] = {
    {"1f1b", "1F1B"},
    {"gpipe", "GPipe"},
    {"interleaved1f1b", "Interleaved1F1B"},
    {"interleavedzerobubble", "InterleavedZeroBubble"},
    {"zbvzerobubble", "ZBVZeroBubble"},
    {"dualpipev", "DualPipeV"}};

void read_schedule_word(Settings& settings) {
  constexpr const char* name = "distributed.pipeline.pp_schedule";
  std::string word = automodel_text(settings, name);
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [own, of_torch] : schedule_words)
    if (word == own)
      imply_setting(settings, "parallelism.pipeline_parallel_schedule", of_torch, name);
}

// Sets the shard degree from dp_size, which counts all data-parallel ranks: replicas times shards.
void read_replicas(Settings& settings) {
  constexpr const char* name = "distributed.dp_size";
  const auto number = [&](const char* of) -> std::int64_t {
    const Setting* found = find_setting(settings, of);
    return found != nullptr && found->value.is_number_integer() ? found->value.get<std::int64_t>()
                                                                : 0;
  };
  const std::int64_t ranks = number(name),
                     copies = std::max<std::int64_t>(1, number("distributed.dp_replicate_size"));
  if (ranks > 0 && ranks % copies == 0)
    imply_setting(settings, "parallelism.data_parallel_shard_degree", ranks / copies, name);
  settings.remove(name);
}

void read_sharing(Settings& settings) {
  const std::string strategy = automodel_text(settings, "distributed.strategy");
  if (strategy == "ddp")
    imply_setting(settings, "parallelism.data_parallel_shard_degree", 1, batch);
  if (strategy == "megatron_fsdp")
    settings.note("distributed.strategy megatron_fsdp: predicted as FSDP 2");
  const bool recomputes = std::ranges::any_of(settings.all(), [](const Setting& each) {
    return each.name.ends_with(".activation_checkpointing") && each.value == true;
  });
  imply_setting(settings, "activation_checkpoint.mode", recomputes ? "full" : "none", batch);
  // A degree that is null, false or "none" follows from the others.
  if (const Setting* degree = find_setting(settings, "distributed.dp_replicate_size");
      degree != nullptr && is_off(degree->value))
    settings.remove("distributed.dp_replicate_size");
  read_replicas(settings);
  for (const char* name :
       {"distributed.tp_size", "distributed.cp_size", "distributed.pp_size", "distributed.ep_size"})
    if (const Setting* degree = find_setting(settings, name);
        degree != nullptr && is_off(degree->value))
      settings.remove(name);
}

// Sets the types of weights. They are loaded in model.torch_dtype, bf16 by default, and the
// optimizer updates them in this type unless it keeps master weights.
void read_types(Settings& settings) {
  const std::string type = automodel_text(settings, "model.torch_dtype");
  const bool is_whole = type.find("32") != std::string::npos;
  const bool has_masters = is_on(settings, "optimizer.master_weights");
  imply_setting(settings, "training.dtype", is_whole || has_masters ? "float32" : "bfloat16",
                settings.has("model.torch_dtype") ? "model.torch_dtype" : batch);
  imply_setting(settings, "training.mixed_precision_param", "bfloat16", batch);
  // The recipe may ask for matrix multiplications of Transformer Engine in 8 bits.
  constexpr const char* recipe = "model.backend.te_fp8.recipe";
  if (!settings.has(recipe)) return;
  const std::string word = automodel_text(settings, recipe);
  imply_setting(settings, "model.converters",
                json::array({word == "mxfp8" ? "quantize.linear.mx" : "quantize.linear.float8"}),
                recipe);
  if (word != "mxfp8")
    settings.note(std::string(recipe) + " " + word + ": predicted with one scale for a tensor");
}

void read_optimizer(Settings& settings) {
  imply_setting(settings, "optimizer.name", "AdamW", "optimizer._target_");
  if (const Setting* betas = find_setting(settings, "optimizer.betas");
      betas != nullptr && betas->value.is_array() && betas->value.size() == 2) {
    const json both = betas->value;
    imply_setting(settings, "optimizer.beta1", both[0], "optimizer.betas");
    imply_setting(settings, "optimizer.beta2", both[1], "optimizer.betas");
  } else {
    imply_setting(settings, "optimizer.beta2", 0.999, batch);
  }
  imply_setting(settings, "lr_scheduler.warmup_steps", 0, batch);
  const std::string decay = automodel_text(settings, "lr_scheduler.lr_decay_style");
  if (decay == "cosine" || decay == "linear")
    imply_setting(settings, "lr_scheduler.decay_type", decay, "lr_scheduler.lr_decay_style");
  else
    imply_setting(settings, "lr_scheduler.decay_ratio", 0, batch);
  const std::string builder = automodel_text(settings, "optimizer._target_");
  if (builder.find("optim.Adam") == std::string::npos && !builder.empty())
    settings.note("optimizer._target_ " + builder + ": planned as AdamW");
}

// Sets the adapters. Their modules are patterns: "*_proj" stands for all linear layers, and
// "*.q_proj" for those with this name.
void read_adapters(Settings& settings) {
  const Setting* found = find_setting(settings, "peft.target_modules");
  const json wanted = found != nullptr ? found->value : json(nullptr);
  const bool adapts = settings.has("peft._target_") || settings.has("peft.dim");
  if (!adapts) return;
  imply_setting(settings, "use_peft", true,
                settings.has("peft.dim") ? "peft.dim" : "peft._target_");
  imply_setting(settings, "lora_alpha", 32, "peft._target_");  // PeftConfig's default
  json names = "all-linear";
  if (!wanted.is_null() && !is_on(settings, "peft.match_all_linear")) {
    const json patterns = wanted.is_array() ? wanted : json::array({wanted});
    json modules = json::array();
    for (const json& each : patterns) {
      std::string name = each.is_string() ? each.get<std::string>() : "";
      if (name == "*_proj" || name == "*") continue;
      name.erase(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
      name.erase(0, std::min(name.size(), name.find_first_not_of('*')));
      if (name.empty() || name.find('*') != std::string::npos)
        settings.fail("peft.target_modules", each.dump() +
                                                 ": such a pattern is not read; give --set "
                                                 "training.lora.target_modules=[...]");
      modules.push_back(name);
    }
    if (!modules.empty()) names = modules;
  }
  imply_setting(settings, "lora_target_modules", names, "peft._target_");
  if (settings.has("peft.exclude_modules"))
    settings.note("peft.exclude_modules: adapters are planned at these modules too");
  settings.remove("peft.target_modules");
}

}  // namespace

void read_automodel(Settings& settings) {
  if (!settings.has(batch)) return;
  for (const Setting& each : std::vector<Setting>(settings.all()))
    if (each.name.starts_with("autopipeline."))
      rename_setting(settings, each.name, "distributed.pipeline." + each.name.substr(13));
  refuse_other_recipes(settings);
  read_length(settings);
  read_sharing(settings);
  read_schedule_word(settings);
  read_types(settings);
  read_optimizer(settings);
  read_adapters(settings);
  if (!settings.has("benchmark.num_nodes") && settings.has("ci.nodes"))
    rename_setting(settings, "ci.nodes", "torchrun.nnodes");
  for (const TrainerName& row : of_automodel) rename_setting(settings, row.other, row.name);
  set_aside(settings);
}

}  // namespace meshwright::interop
