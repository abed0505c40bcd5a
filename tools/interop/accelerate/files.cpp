// Defines the target accelerate: its settings file, and transformers' Trainer that it launches.
#include "tools/interop/accelerate/accelerate.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view about_start = "how processes meet";
constexpr std::string_view about_wrapping = "blocks are what is gathered and reduced together here";
constexpr std::string_view about_loading = "how weights are loaded and saved";
constexpr std::string_view about_device =
    "states and parameters stay on the device here; memory is predicted as without";
constexpr std::string_view about_detail = "details that predictions do not tell apart";

constexpr WithoutMeaning own_rows[] = {
    {"machine_rank", about_start},
    {"main_process_*", about_start},
    {"main_training_function", about_start},
    {"rdzv_*", about_start},
    {"same_network", about_start},
    {"gpu_ids", about_start},
    {"tpu_*", about_start},
    {"command_file", about_start},
    {"commands", about_start},
    {"use_cpu", about_start},
    {"debug", about_start},
    {"downcast_bf16", "of TPUs"},
    {"enable_cpu_affinity", about_detail},
    {"mpirun_config.*", about_start},
    {"num_cpu_threads_per_process", about_start},
    {"fsdp_config.fsdp_auto_wrap_policy", about_wrapping},
    {"fsdp_config.fsdp_transformer_layer_cls_to_wrap", about_wrapping},
    {"fsdp_config.fsdp_min_num_params", about_wrapping},
    {"fsdp_config.fsdp_offload_params", about_device},
    {"fsdp_config.fsdp_backward_prefetch*", "one block is gathered ahead here"},
    {"fsdp_config.fsdp_forward_prefetch", "one block is gathered ahead here"},
    {"fsdp_config.*", about_loading},
    {"parallelism_config.*", about_detail},
    {"deepspeed_config.offload_*", about_device},
    {"deepspeed_config.zero3_*", about_loading},
    {"deepspeed_config.*", about_start},
    {"megatron_lm_config.*", about_detail},
    {"dynamo_config.*", about_detail},
    {"fp8_config.*", about_detail},
    {"torchrun.*", about_start},
    {"accelerate.*", about_start},
    {"sbatch.*", "the queue's; launch files have their own"},
    {"env.*", "the environment of its processes; launch files have their own"},
    {"program", "the script of one's own"},
};

const std::vector<WithoutMeaning> rows = with_those_of_trainer(own_rows);

std::vector<ExportedFile> files(const JobValues& job, const Settings& settings) {
  Settings own;
  for (const Setting& each : settings.all())
    if (!is_trainer_setting(each.name)) own.add(each.name, each.value);
  std::vector<ExportedFile> all = {{"accelerate.yaml", yaml_text(own)}};
  for (ExportedFile& file : trainer_files(job, settings)) all.push_back(std::move(file));
  return all;
}

Launch launch(const JobValues& job, const Settings&) {
  Launch launch = launch_of(job);
  launch.starter = {"accelerate", "launch", "--config_file", "accelerate.yaml"};
  launch.words = {"train.py", "training_args.json"};
  return launch;
}

}  // namespace

const InteropTarget accelerate_target = {
    Framework::accelerate,
    "accelerate, its settings file beside transformers' Trainer",
    accelerate_rules,
    rows,
    files,
    launch,
    with_trainer_names,
    nullptr,
    trainer_warnings};

}  // namespace meshwright::interop
