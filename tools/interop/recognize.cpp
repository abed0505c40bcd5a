#include "tools/interop/recognize.h"

#include <algorithm>
#include <filesystem>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/import.h"

namespace meshwright::interop {

namespace {

// A name of a setting that only one framework has. A name that ends with `.` stands for all
// settings below it. The first row that matches a file decides.
struct Sign {
  std::string_view name;
  Framework framework;
};
constexpr Sign signs[] = {
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
};

bool has(const Settings& settings, std::string_view sign) {
  if (!sign.ends_with('.')) return settings.has(sign);
  return std::ranges::any_of(settings.all(),
                             [&](const Setting& each) { return each.name.starts_with(sign); });
}

std::string ending_of(const std::string& file) {
  return std::filesystem::path(file).extension().string();
}

Settings read_one(const std::string& file, const std::string& text) {
  const std::string ending = ending_of(file);
  if (ending == ".yaml" || ending == ".yml") return read_yaml(text, file);
  if (ending == ".toml") return read_toml(text, file);
  if (ending == ".json") return read_json(text, file);
  if (ending == ".sh" || ending == ".txt" || ending == ".sbatch" || ending == ".slurm" ||
      ending == ".bash" || ending == ".args")
    return read_arguments(text, file);
  throw InputError(file + ": what ends with '" + ending +
                   "' is not read; .sh, .txt, .sbatch (arguments), .yaml, .toml and .json are");
}

// Returns whether a setting is still missing, or is "auto", which in DeepSpeed's files leaves it to
// another file.
bool is_open(const Settings& settings, const std::string& name) {
  return std::ranges::none_of(settings.all(), [&](const Setting& each) {
    return same_name(each.name, name) && each.value != "auto";
  });
}

}  // namespace

Framework recognize(const std::string& file, const Settings& settings) {
  for (const Sign& sign : signs)
    if (has(settings, sign.name)) return sign.framework;
  throw InputError(file + ": no framework is known by these settings; name it with --format: " +
                   list_of(framework_names()));
}

ReadFiles read_settings(const std::vector<std::string>& files, std::optional<Framework> format) {
  ReadFiles read;
  for (const std::string& file : files) {
    const std::string text = read_file(file);
    Settings settings = read_one(file, text);
    if (ending_of(file) == ".json" && settings.has("model_type")) {
      read.model_config = parse_json(text, file);
      continue;
    }
    if (settings.all().empty()) throw InputError(file + ": holds no settings");
    if (read.first_file.empty()) {
      read.first_file = file;
      read.name = std::filesystem::path(file).stem().string();
      read.framework = format ? *format : recognize(file, settings);
      read.settings = std::move(settings);
      continue;
    }
    for (const Setting& each : settings.all())
      if (is_open(read.settings, each.name)) read.settings.add(each.name, each.value, each.place);
  }
  if (read.first_file.empty())
    throw InputError("import: no file holds settings; give one beside the model's config.json");
  return read;
}

}  // namespace meshwright::interop
