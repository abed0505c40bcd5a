// Defines the target Megatron-Bridge. An export writes the overrides of a ConfigContainer, the
// model's config.json, and a program that starts Bridge's pretraining with them.
#include <set>

#include "models/architectures/huggingface_config.h"
#include "tools/interop/bridge/bridge.h"
#include "tools/interop/bridge/names.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

namespace {

// Adds a type of torch as ConfigContainer's YAML writes it.
void add_type(Settings& to, const std::string& name, const char* type) {
  to.add(name + "._target_", std::string("torch.") + type);
  to.add(name + "._call_", false);
}

const char* torch_type(const json& word) {
  return word == "bf16" ? "bfloat16" : word == "fp16" ? "float16" : "float32";
}

const Setting* find(const Settings& settings, std::string_view name) {
  for (const Setting& each : settings.all())
    if (each.name == name) return &each;
  return nullptr;
}

json value_of(const Settings& settings, std::string_view name, json missing) {
  const Setting* setting = find(settings, name);
  return setting == nullptr ? missing : setting->value;
}

// Adds the recipe of mixed precision field by field. Megatron-LM's words for an FP8 recipe are
// those of Transformer Engine, so they are copied.
void add_precision(const Settings& arguments, Settings& to) {
  const std::string before = "mixed_precision.";
  const bool half = arguments.has("fp16"), brain = arguments.has("bf16");
  to.add(before + "_target_", "megatron.bridge.training.mixed_precision.MixedPrecisionConfig");
  to.add(before + "bf16", brain);
  to.add(before + "fp16", half);
  const char* type = brain ? "bfloat16" : half ? "float16" : "float32";
  add_type(to, before + "params_dtype", type);
  add_type(to, before + "pipeline_dtype", type);
  to.add(before + "autocast_enabled", false);
  to.add(before + "grad_reduce_in_fp32", half ? arguments.has("accumulate-allreduce-grads-in-fp32")
                                              : !arguments.has("grad-reduce-in-bf16"));
  if (arguments.has("fp8-format")) {
    to.add(before + "fp8", value_of(arguments, "fp8-format", nullptr));
    to.add(before + "fp8_recipe", value_of(arguments, "fp8-recipe", nullptr));
    to.add(before + "fp8_amax_history_len", value_of(arguments, "fp8-amax-history-len", 1));
    to.add(before + "fp8_amax_compute_algo",
           value_of(arguments, "fp8-amax-compute-algo", "most_recent"));
    to.add(before + "fp8_param_gather", false);
  }
  if (arguments.has("fp4-format")) {
    to.add(before + "fp4", value_of(arguments, "fp4-format", nullptr));
    to.add(before + "fp4_recipe", value_of(arguments, "fp4-recipe", nullptr));
  }
  if (arguments.has("first-last-layers-bf16")) {
    to.add(before + "first_last_layers_bf16", true);
    to.add(before + "num_layers_at_start_in_bf16",
           value_of(arguments, "num-layers-at-start-in-bf16", 1));
    to.add(before + "num_layers_at_end_in_bf16",
           value_of(arguments, "num-layers-at-end-in-bf16", 1));
  }
  if (!half) return;
  for (const auto& [argument, field] : {std::pair{"loss-scale", "loss_scale"},
                                        {"initial-loss-scale", "initial_loss_scale"},
                                        {"min-loss-scale", "min_loss_scale"},
                                        {"loss-scale-window", "loss_scale_window"},
                                        {"hysteresis", "hysteresis"}})
    if (const Setting* setting = find(arguments, argument); setting != nullptr)
      to.add(before + field, setting->value);
}

// Returns the arguments of Megatron-LM that add_rows() leaves out: they have no name of their own
// in a ConfigContainer, or are written by hand.
const std::set<std::string, std::less<>>& composite() {
  static const std::set<std::string, std::less<>> names = {"bf16",
                                                           "fp16",
                                                           "fp8-format",
                                                           "fp8-recipe",
                                                           "first-last-layers-bf16",
                                                           "num-layers-at-start-in-bf16",
                                                           "num-layers-at-end-in-bf16",
                                                           "fp8-amax-history-len",
                                                           "fp8-amax-compute-algo",
                                                           "accumulate-allreduce-grads-in-fp32",
                                                           "grad-reduce-in-bf16",
                                                           "loss-scale",
                                                           "initial-loss-scale",
                                                           "min-loss-scale",
                                                           "loss-scale-window",
                                                           "hysteresis",
                                                           "group-query-attention",
                                                           "make-vocab-size-divisible-by",
                                                           "tokenizer-type",
                                                           "mock-data",
                                                           "max-position-embeddings",
                                                           "main-params-dtype",
                                                           "exp-avg-dtype",
                                                           "exp-avg-sq-dtype",
                                                           "vocab-size",
                                                           "seq-length",
                                                           "num-query-groups"};
  return names;
}

void add_rows(const Settings& arguments, Settings& to) {
  std::set<std::string_view> written;
  for (const BridgeName& row : bridge_names()) {
    if (composite().contains(row.megatron) || !written.insert(row.megatron).second) continue;
    const Setting* setting = find(arguments, row.megatron);
    if (row.value == BridgeValue::same) {
      if (setting != nullptr) to.add(std::string(row.bridge), setting->value);
    } else {
      const bool on = setting != nullptr && setting->value == true;
      // These arguments are left out unless they are on, because Bridge builds something for any
      // other value than null.
      if (!on && (row.megatron == "enable-cuda-graph" || row.megatron == "external-cuda-graph" ||
                  row.megatron == "tp-comm-overlap" ||
                  row.megatron == "overlap-dispatch-backward-with-experts-wgrad"))
        continue;
      to.add(std::string(row.bridge), row.value == BridgeValue::flag ? on : !on);
    }
  }
}

std::string starter(const Settings& arguments) {
  const bool gated = arguments.has("swiglu");
  std::string text =
      R"(# Starts Megatron-Bridge's pretraining with the settings of overrides.yaml.
from pathlib import Path

import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.training import config as bridge
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import MixedPrecisionConfig
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides

SEQUENCE_LENGTH = )";
  text += value_of(arguments, "seq-length", 0).dump();
  text += R"(

config = bridge.ConfigContainer(
    model=GPTModelProvider(
        num_layers=)" +
          value_of(arguments, "num-layers", 0).dump() +
          ", hidden_size=" + value_of(arguments, "hidden-size", 0).dump() +
          ", num_attention_heads=" + value_of(arguments, "num-attention-heads", 0).dump() + R"(,
        activation_func=torch.nn.functional.)" +
          (gated ? "silu" : "gelu") + R"(,
    ),
    train=bridge.TrainingConfig(),
    optimizer=bridge.OptimizerConfig(),
    scheduler=bridge.SchedulerConfig(),
    ddp=bridge.DistributedDataParallelConfig(),
    # Tokens at random; a real run names its data and its tokenizer here.
    dataset=bridge.MockGPTDatasetConfig(
        seq_length=SEQUENCE_LENGTH, random_seed=1234,
        reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
    ),
    tokenizer=bridge.TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=)" +
          value_of(arguments, "vocab-size", 0).dump() + R"(),
    logger=bridge.LoggerConfig(),
    checkpoint=bridge.CheckpointConfig(),
    mixed_precision=MixedPrecisionConfig(),
)
config = process_config_with_overrides(
    config, config_filepath=str(Path(__file__).with_name("overrides.yaml")))
pretrain(config=config, forward_step_func=forward_step)
)";
  return text;
}

std::vector<ExportedFile> write_bridge_files(const JobValues& job, const Settings& settings) {
  return {{"overrides.yaml", yaml_text(bridge_overrides(settings))},
          {"config.json", huggingface_config(job.model).dump(2) + "\n"},
          {"train.py", starter(settings)}};
}

Launch launch_bridge(const JobValues& job, const Settings&) {
  Launch launch = launch_of(job);
  launch.words = {"train.py"};
  const Parallelism& p = job.plan.parallelism;
  if (p.zero_stage <= 1 && (p.tensor > 1 || p.context > 1))
    launch.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  return launch;
}

}  // namespace

Settings bridge_overrides(const Settings& arguments) {
  Settings to;
  add_rows(arguments, to);
  to.add("model.seq_length", value_of(arguments, "seq-length", nullptr));
  to.add("dataset.sequence_length", value_of(arguments, "seq-length", nullptr));
  to.add("model.num_query_groups", value_of(arguments, "num-query-groups",
                                            value_of(arguments, "num-attention-heads", nullptr)));
  // NullTokenizer adds one word to vocab_size, so the model's vocabulary has one word more.
  if (const json words = value_of(arguments, "vocab-size", nullptr); words.is_number_integer())
    to.add("model.vocab_size", words.get<std::int64_t>() + 1);
  to.add("model.make_vocab_size_divisible_by", 128);
  if (arguments.has("tp-comm-overlap")) {
    to.add("comm_overlap._target_", "megatron.bridge.training.comm_overlap.CommOverlapConfig");
    to.add("comm_overlap.bucket_size", value_of(arguments, "ddp-bucket-size", nullptr));
  }
  if (arguments.has("use-precision-aware-optimizer"))
    for (const auto& [argument, field] : {std::pair{"main-params-dtype", "main_params_dtype"},
                                          {"exp-avg-dtype", "exp_avg_dtype"},
                                          {"exp-avg-sq-dtype", "exp_avg_sq_dtype"}})
      add_type(to, std::string("optimizer.") + field,
               torch_type(value_of(arguments, argument, nullptr)));
  add_precision(arguments, to);
  for (const Setting& each : arguments.all())  // Bridge's own settings
    if (each.name.find('.') != std::string::npos) to.add(each.name, each.value);
  return to;
}

namespace {

std::string spelled_by_bridge(std::string_view name) {
  for (const BridgeName& each : bridge_names())
    if (each.megatron == name) return std::string(each.bridge);
  return std::string(name);
}

}  // namespace

const InteropTarget megatron_bridge_target = {Framework::megatron_bridge,
                                              "Megatron-Bridge, overrides of a ConfigContainer",
                                              bridge_rules,
                                              bridge_without_meaning(),
                                              write_bridge_files,
                                              launch_bridge,
                                              translate_bridge,
                                              spelled_by_bridge};

}  // namespace meshwright::interop
