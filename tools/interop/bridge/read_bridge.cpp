// Translates the settings of a ConfigContainer that do not correspond to one argument of
// Megatron-LM each.
#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/bridge/bridge.h"

namespace meshwright::interop {

namespace {

// Returns the last word of a dotted name: "silu" of "torch.nn.functional.silu".
std::string last_word(const json& value) {
  if (!value.is_string()) return {};
  const std::string text = value;
  return text.substr(text.rfind('.') + 1);
}

std::string short_type(const std::string& type) {
  return type == "float32" || type == "float" ? "fp32" : type == "bfloat16" ? "bf16" : type;
}

void say_types(Translation& file) {
  struct Row {
    const char *plain, *target, *argument;
  };
  constexpr Row rows[] = {
      {"optimizer.main_params_dtype", "optimizer.main_params_dtype._target_", "main-params-dtype"},
      {"optimizer.main_grads_dtype", "optimizer.main_grads_dtype._target_", "main-grads-dtype"},
      {"optimizer.exp_avg_dtype", "optimizer.exp_avg_dtype._target_", "exp-avg-dtype"},
      {"optimizer.exp_avg_sq_dtype", "optimizer.exp_avg_sq_dtype._target_", "exp-avg-sq-dtype"}};
  for (const Row& row : rows)
    for (const char* name : {row.plain, row.target})
      if (const Setting* setting = file.find(name); setting != nullptr)
        file.say(row.argument, short_type(last_word(setting->value)), {name});
}

void say_activation(Translation& file) {
  const Setting* gated = file.find("model.gated_linear_unit");
  for (const char* name : {"model.activation_func", "model.activation_func._target_"}) {
    const Setting* setting = file.find(name);
    if (setting == nullptr) continue;
    const std::string word = last_word(setting->value);
    const bool gates = gated != nullptr && gated->value == true;
    if (gates ? word != "silu" && word != "swish" : word != "gelu")
      file.fail(*setting, "'" + word + "'" + (gates ? " with gated_linear_unit" : "") +
                              ": no such MLP is built; silu with gated_linear_unit and gelu "
                              "without it are");
    file.repeats(name);
  }
}

// Returns a pipeline layout that is given as lists of layers in Megatron-LM's notation: a letter
// per layer (E embedding, t decoder, L loss, m any other) and `|` between stages.
std::string layout_of(const Translation& file, const Setting& setting) {
  std::string text;
  for (const json& stage : setting.value) {
    if (!text.empty()) text += '|';
    if (!stage.is_array()) file.fail(setting, "is neither a text nor a list of stages");
    for (const json& layer : stage)
      text += layer == "embedding" ? "E" : layer == "decoder" ? "t" : layer == "loss" ? "L" : "m";
  }
  return text;
}

void say_model(Translation& file) {
  if (const Setting* groups = file.find("model.num_query_groups"); groups != nullptr) {
    const json value = groups->value;
    file.say("num-query-groups", value, {"model.num_query_groups"});
    file.say("group-query-attention", true, {"model.num_query_groups"});
  }
  // A model that the file sizes itself has the tokenizer's vocabulary if it gives none.
  const Setting* words = file.find("tokenizer.vocab_size");
  if (words != nullptr && file.find("model.vocab_size") == nullptr &&
      file.find("model.num_layers") != nullptr) {
    const json size = words->value;
    file.say("vocab-size", size, {"tokenizer.vocab_size"});
  }
  if (const Setting* backend = file.find("model.attention_backend"); backend != nullptr)
    file.say("attention-backend", last_word(backend->value), {"model.attention_backend"});
  const char* name = "model.pipeline_model_parallel_layout";
  if (const Setting* layout = file.find(name); layout != nullptr && layout->value.is_array())
    file.say("pipeline-model-parallel-layout", layout_of(file, *layout), {name});
  // Sequences have the dataset's length if it is given. The model's length is then that of the
  // table of positions.
  const Setting* modelled = file.find("model.seq_length");
  const Setting* read = file.find("dataset.sequence_length");
  if (read == nullptr) read = file.find("dataset.seq_length");
  if (read != nullptr) {
    const json length = read->value;
    file.say("seq-length", length, {"dataset.sequence_length", "dataset.seq_length"});
    if (modelled != nullptr)
      file.say("max-position-embeddings", modelled->value, {"model.seq_length"});
  } else if (modelled != nullptr) {
    const json length = modelled->value;
    file.say("seq-length", length, {"model.seq_length"});
  }
}

// Sets the bucket size of Bridge's CommOverlapConfig, 128 Mi elements, if the file has that config
// but no bucket size (training/comm_overlap.py).
void say_buckets(Translation& file) {
  const bool has = file.find("comm_overlap._target_") != nullptr ||
                   file.find("comm_overlap.tp_comm_overlap") != nullptr;
  if (has && file.find("ddp.bucket_size") == nullptr &&
      file.find("comm_overlap.bucket_size") == nullptr)
    file.usual("ddp-bucket-size", "comm_overlap.bucket_size", 128 * 1024 * 1024);
}

// Sets the defaults of megatron.bridge.recipes, as in _pretrain_common and its optimizer, for the
// settings below that the file leaves out.
void say_usual(Translation& file) {
  const auto flag_is_there = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return file.find(name) != nullptr; });
  };
  if (!flag_is_there({"ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"}))
    file.usual("use-distributed-optimizer", "ddp.use_distributed_optimizer", true);
  if (!flag_is_there({"ddp.overlap_grad_reduce", "comm_overlap.overlap_grad_reduce"}))
    file.usual("overlap-grad-reduce", "ddp.overlap_grad_reduce", true);
  if (!flag_is_there({"ddp.overlap_param_gather", "comm_overlap.overlap_param_gather"}))
    file.usual("overlap-param-gather", "ddp.overlap_param_gather", true);
  if (!flag_is_there({"ddp.data_parallel_sharding_strategy"}))
    file.usual("data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy",
               "optim_grads_params");
  if (!flag_is_there({"model.cross_entropy_loss_fusion"}))
    file.usual("cross-entropy-loss-fusion", "model.cross_entropy_loss_fusion", true);
  if (!flag_is_there({"scheduler.lr_decay_style"}))
    file.usual("lr-decay-style", "scheduler.lr_decay_style", "cosine");
  if (!flag_is_there({"optimizer.weight_decay"}))
    file.usual("weight-decay", "optimizer.weight_decay", 0.1);
  if (!flag_is_there({"optimizer.adam_beta2"}))
    file.usual("adam-beta2", "optimizer.adam_beta2", 0.95);
  // Unlike Megatron-LM, Bridge does not split experts that ranks share over the tensor group
  // (models/transformer_config.py).
  const Setting* expert = file.find("model.expert_model_parallel_size");
  if (expert != nullptr && expert->value.is_number() && expert->value > 1 &&
      file.find("model.expert_tensor_parallel_size") == nullptr)
    file.usual("expert-tensor-parallel-size", "model.expert_tensor_parallel_size", 1);
  // If the file does not size the model, the model is a recipe's, which has no dropout, and splits
  // sequences if it splits tensors.
  if (file.find("model.num_layers") == nullptr) {
    const Setting* tensor = file.find("model.tensor_model_parallel_size");
    if (tensor != nullptr && tensor->value != 1 && file.find("model.sequence_parallel") == nullptr)
      file.usual("sequence-parallel", "model.sequence_parallel", true);
    for (const char* name : {"model.hidden_dropout", "model.attention_dropout"})
      if (file.find(name) == nullptr)
        file.usual(std::string_view(name) == "model.hidden_dropout" ? "hidden-dropout"
                                                                    : "attention-dropout",
                   name, 0.0);
  }
}

// Sets how many layers at both ends of the model compute in bf16 while the others compute in 8 or 4
// bits. With the recipe of current scaling, the default is one layer at each end.
void say_layers_in_bf16(Translation& file, bool of_current_scaling) {
  const Setting* asked = file.find("mixed_precision.first_last_layers_bf16");
  if (asked == nullptr ? of_current_scaling : asked->value == true) {
    if (asked != nullptr)
      file.say("first-last-layers-bf16", true, {"mixed_precision.first_last_layers_bf16"});
    else
      file.usual("first-last-layers-bf16", "mixed_precision", true);
    for (const auto& [argument, field] :
         {std::pair{"num-layers-at-start-in-bf16", "mixed_precision.num_layers_at_start_in_bf16"},
          {"num-layers-at-end-in-bf16", "mixed_precision.num_layers_at_end_in_bf16"}}) {
      const Setting* count = file.find(field);
      if (count != nullptr) {
        const json value = count->value;
        file.say(argument, value, {field});
      } else {
        file.usual(argument, "mixed_precision", of_current_scaling ? 1 : 0);
      }
    }
  }
  for (const char* name :
       {"mixed_precision.first_last_layers_bf16", "mixed_precision.num_layers_at_start_in_bf16",
        "mixed_precision.num_layers_at_end_in_bf16"})
    file.repeats(name);
}

}  // namespace

void say_precision(Translation& file, const Setting* name) {
  std::string kind = "bf16";
  json format, recipe, narrow;
  std::optional<bool> in_fp32;
  const char* by = "mixed_precision";
  bool of_current_scaling = false;
  if (name != nullptr) {
    std::string text = name->value.is_string() ? name->value.get<std::string>() : "";
    std::ranges::replace(text, '-', '_');
    const auto holds = [&](const char* part) { return text.find(part) != std::string::npos; };
    if (!text.ends_with("mixed") || !(text.starts_with("bf16") || text.starts_with("fp16")))
      file.fail(*name, name->value.dump() +
                           " is no recipe of mixed precision; bf16_mixed, fp16_mixed and "
                           "bf16_with_fp8_current_scaling_mixed are some");
    kind = text.substr(0, 4);
    if (holds("fp4")) {
      if (!holds("nvfp4"))
        file.fail(*name, "'" + text + "': the only recipe with 4 bits is bf16_with_nvfp4_mixed");
      narrow = "e2m1";
    } else if (holds("fp8")) {
      format = holds("mxfp8") ? "e4m3" : "hybrid";
      recipe = holds("delayed")      ? "delayed"
               : holds("current")    ? "tensorwise"
               : holds("subchannel") ? "blockwise"
                                     : "mxfp8";
      of_current_scaling = holds("current");
    }
  }
  const auto field = [&](const char* key) {
    return file.find("mixed_precision." + std::string(key));
  };
  if (const Setting* bf16 = field("bf16"), *fp16 = field("fp16");
      bf16 != nullptr || fp16 != nullptr) {
    const bool one = bf16 != nullptr && bf16->value == true;
    const bool other = fp16 != nullptr && fp16->value == true;
    if (one && other) file.fail(*fp16, "true beside mixed_precision.bf16; keep one of them");
    kind = other ? "fp16" : one ? "bf16" : "fp32";
    by = other ? "mixed_precision.fp16" : "mixed_precision.bf16";
  } else if (name == nullptr &&
             (file.find("model.bf16") != nullptr || file.find("model.fp16") != nullptr)) {
    const Setting* half = file.find("model.fp16");
    const bool other = half != nullptr && half->value == true;
    by = other ? "model.fp16" : "model.bf16";
    const Setting* says = file.find(by);
    kind = other ? "fp16" : says != nullptr && says->value == true ? "bf16" : "fp32";
  }
  if (const Setting* fp4 = field("fp4"); fp4 != nullptr) narrow = fp4->value;
  if (const Setting* fp8 = field("fp8"); fp8 != nullptr) format = fp8->value;
  if (const Setting* kind8 = field("fp8_recipe"); kind8 != nullptr) recipe = kind8->value;
  if (const Setting* wide = field("grad_reduce_in_fp32");
      wide != nullptr && wide->value.is_boolean())
    in_fp32 = wide->value.get<bool>();
  const bool wide = in_fp32.value_or(kind != "fp16");

  if (kind != "fp32") {
    if (file.find(by) != nullptr)
      file.say(kind, true, {by});
    else
      file.usual(kind, "mixed_precision", true);
  }
  for (const char* other : {"mixed_precision.bf16", "mixed_precision.fp16", "model.bf16",
                            "model.fp16", "optimizer.bf16", "optimizer.fp16"})
    file.repeats(other);
  if (!format.is_null()) {
    if (field("fp8") != nullptr)
      file.say("fp8-format", format, {"mixed_precision.fp8"});
    else
      file.say("fp8-format", format, {"mixed_precision"});
    // MixedPrecisionConfig has the default tensorwise.
    if (recipe.is_null()) recipe = "tensorwise";
    if (field("fp8_recipe") != nullptr)
      file.say("fp8-recipe", recipe, {"mixed_precision.fp8_recipe"});
    else
      file.say("fp8-recipe", recipe, {name == nullptr ? "mixed_precision.fp8" : "mixed_precision"});
  }
  if (!narrow.is_null())
    file.say("fp4-format", narrow,
             {field("fp4") != nullptr ? "mixed_precision.fp4" : "mixed_precision"});
  if (const Setting* recipe4 = field("fp4_recipe"); recipe4 != nullptr && !narrow.is_null())
    file.say("fp4-recipe", recipe4->value, {"mixed_precision.fp4_recipe"});
  say_layers_in_bf16(file, of_current_scaling);
  const char* reduced =
      kind == "fp16" || wide ? "accumulate-allreduce-grads-in-fp32" : "grad-reduce-in-bf16";
  const bool value = kind == "fp16" ? wide : kind != "fp32";
  if (in_fp32)
    file.say(reduced, value, {"mixed_precision.grad_reduce_in_fp32"});
  else
    file.usual(reduced, "mixed_precision.grad_reduce_in_fp32", value);
  for (const char* key :
       {"loss_scale", "initial_loss_scale", "min_loss_scale", "loss_scale_window", "hysteresis"}) {
    if (field(key) == nullptr) continue;
    std::string argument = key;
    std::ranges::replace(argument, '_', '-');
    const json said = field(key)->value;
    const std::string full = "mixed_precision." + std::string(key);
    file.say(argument, said, {full.c_str()});
  }
}

Settings translate_bridge(Settings settings, const JobDraft& given) {
  refuse_other_bridge_files(settings, given);
  const std::vector<std::string> notes = settings.notes();
  settings = choose_from_matrix(settings, given);
  const bool is_nemo = std::ranges::any_of(
      settings.all(), [](const Setting& each) { return each.name.starts_with("trainer."); });
  Translation file(settings, is_nemo ? nemo_names() : bridge_names());
  const auto finished = [&] {
    Settings all = file.finish();
    for (const std::string& note : notes) all.note(note);
    return all;
  };
  if (is_nemo) {
    translate_nemo(file);
    return finished();
  }
  const Setting* name = file.find("mixed_precision");
  say_types(file);
  say_activation(file);
  say_model(file);
  say_precision(file, name);
  say_buckets(file);
  say_usual(file);
  file.repeats("ddp.grad_reduce_in_fp32");
  return finished();
}

}  // namespace meshwright::interop
