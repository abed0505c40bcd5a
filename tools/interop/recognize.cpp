#include "tools/interop/recognize.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

// A name of a setting that is typical of a framework. A name that ends with `.` stands for all
// settings below it. Some names occur in several frameworks, so the first row that matches a file
// decides.
struct Sign {
  std::string_view name;
  Framework framework;
};
constexpr Sign signs[] = {
    {"base_model", Framework::accelerate},                       // axolotl
    {"checkpointer._component_", Framework::accelerate},         // torchtune
    {"hidden_width", Framework::accelerate},                     // AWS's examples of FSDP
    {"step_scheduler.local_batch_size", Framework::torchtitan},  // NeMo AutoModel
    {"tensor-model-parallel-size", Framework::megatron_lm},
    {"num-layers", Framework::megatron_lm},
    {"micro-batch-size", Framework::megatron_lm},
    {"distribution.", Framework::sagemaker},
    {"mp_parameters", Framework::sagemaker},
    {"mp_parameters.", Framework::sagemaker},
    {"hyperparameters.", Framework::sagemaker},
    {"smdistributed.", Framework::sagemaker},
    {"smp.", Framework::sagemaker},
    {"use_smp_model", Framework::hyperpod},
    {"use_smp", Framework::hyperpod},
    {"recipes.", Framework::hyperpod},
    {"ConfigContainer.", Framework::megatron_bridge},
    {"model_config.", Framework::megatron_bridge},
    {"train_config.", Framework::megatron_bridge},
    {"perf_matrix.", Framework::megatron_bridge},
    {"recipe.model", Framework::megatron_bridge},
    {"verification_index.", Framework::megatron_bridge},
    {"model.encoder_seq_length", Framework::megatron_bridge},
    {"model.tensor_model_parallel_size", Framework::megatron_bridge},
    {"run.", Framework::hyperpod},
    {"distributed_type", Framework::accelerate},
    {"compute_environment", Framework::accelerate},
    {"zero_optimization.", Framework::deepspeed},
    {"train_batch_size", Framework::deepspeed},
    {"train_micro_batch_size_per_gpu", Framework::deepspeed},
    {"train.", Framework::megatron_bridge},
    {"ddp.", Framework::megatron_bridge},
    {"trainer.", Framework::megatron_bridge},
    {"parallelism.", Framework::torchtitan},
    {"training.", Framework::torchtitan},
    {"job.", Framework::torchtitan},
    {"deepspeed", Framework::deepspeed},
    {"deepspeed.num-gpus", Framework::deepspeed},
    {"per_device_train_batch_size", Framework::accelerate},
    {"fsdp_config.", Framework::accelerate},
    {"instance_type", Framework::sagemaker},
    {"compute.instance_type", Framework::sagemaker},
    {"ResourceConfig.InstanceType", Framework::sagemaker},
    {"HyperParameters.", Framework::sagemaker},
};

// Names of settings of frameworks that import does not read. They are checked first, so that their
// files are not taken for those of another framework.
struct ForeignSign {
  std::string_view name, framework;
};
constexpr ForeignSign foreign[] = {
    {"pipe-parallel-size", "GPT-NeoX"},
    {"pos-emb", "GPT-NeoX"},
    {"actor_rollout_ref.", "verl"},
};

bool has(const Settings& settings, std::string_view sign) {
  if (!sign.ends_with('.')) return settings.has(sign);
  return std::ranges::any_of(settings.all(),
                             [&](const Setting& each) { return each.name.starts_with(sign); });
}

std::string program_in(const Settings& settings) {
  for (const Setting& each : settings.all())
    if (each.name == "program" && each.value.is_string()) return each.value;
  return {};
}

}  // namespace

Framework recognize(const std::string& file, const Settings& settings) {
  for (const ForeignSign& sign : foreign)
    if (has(settings, sign.name))
      throw InputError(file + ": settings of " + std::string(sign.framework) +
                       " are not read; write the job file by hand (docs/job-file.md), or give the "
                       "settings of one of " +
                       list_of(framework_names(), "and"));
  // A file of axolotl may name a configuration of DeepSpeed, which then decides.
  if (has(settings, "base_model") && has(settings, "zero_optimization."))
    return Framework::deepspeed;
  for (const Sign& sign : signs)
    if (has(settings, sign.name)) return sign.framework;
  if (program_in(settings).find("torchtitan") != std::string::npos) return Framework::torchtitan;
  // A program of one's own: what it trains is asked for.
  if (settings.launcher() == "deepspeed") return Framework::deepspeed;
  if (settings.launcher() == "accelerate") return Framework::accelerate;
  for (const char* name : {"do_predict", "do_eval", "tokenized_path"})
    if (settings.has(name))
      throw InputError(file + ": " + name +
                       " prepares data or evaluates, and nothing says how a model is trained "
                       "(per_device_train_batch_size)");
  throw InputError(file + ": no framework is known by these settings; name it with --format: " +
                   list_of(framework_names()));
}

}  // namespace meshwright::interop
