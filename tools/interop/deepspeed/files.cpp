// Defines the target DeepSpeed: ds_config.json, and transformers' Trainer that runs with it.
#include "tools/interop/deepspeed/deepspeed.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view about_data = "data; `data` says what train reads here";
constexpr std::string_view about_logs = "logging; `log` says what train writes here";
constexpr std::string_view about_saves =
    "checkpoints of its own; `checkpoint` says when train saves here";
constexpr std::string_view about_checks = "checks and profiling, which change no plan";
constexpr std::string_view about_kernels =
    "a choice among kernels that predictions do not tell apart";
constexpr std::string_view about_detail = "how ZeRO works in detail";
constexpr std::string_view about_own_code =
    "acts where a model's code calls deepspeed.checkpointing";
constexpr std::string_view about_on_device =
    "states and parameters stay on the device here; memory is predicted as without";

constexpr WithoutMeaning own_rows[] = {
    {"steps_per_print", about_logs},
    {"wall_clock_breakdown", about_checks},
    {"dump_state", about_checks},
    {"memory_breakdown", about_checks},
    {"flops_profiler.*", about_checks},
    {"comms_logger.*", about_logs},
    {"tensorboard.*", about_logs},
    {"wandb.*", about_logs},
    {"csv_monitor.*", about_logs},
    {"comet.*", about_logs},
    {"monitor_config.*", about_logs},
    {"prescale_gradients", "sums are means here"},
    {"gradient_predivide_factor", "sums are means here"},
    {"sparse_gradients", "gradients of the embedding travel whole here"},
    {"disable_allgather", about_detail},
    {"dataloader_drop_last", about_data},
    {"data_efficiency.*", about_data},
    {"curriculum_learning.*", about_data},
    {"data_types.*", about_detail},
    {"seq_parallel_communication_data_type", about_detail},
    {"checkpoint.*", about_saves},
    {"nebula.*", about_saves},
    {"elasticity.*", "replicas that come and go are not planned"},
    {"autotuning.*", "`plan` looks for the settings here"},
    {"activation_checkpointing.*", about_own_code},
    {"pipeline.*", "stages are in a model's own code; --set parallelism.pipeline says how many"},
    {"fp8_config.*", about_kernels},
    {"comms_config.*", about_logs},
    {"_comment*", "a comment"},
    {"comment*", "a comment"},
    {"zero_allow_untested_optimizer", about_checks},
    {"zero_force_ds_cpu_optimizer", about_on_device},
    {"zero_optimization.offload_optimizer.*", about_on_device},
    {"zero_optimization.offload_param.*", about_on_device},
    {"zero_optimization.cpu_offload*", about_on_device},
    {"zero_optimization.zenflow.*", about_on_device},
    {"aio.*", about_on_device},
    {"zero_optimization.allgather_bucket_size",
     "weights are gathered in the buckets of their gradients here"},
    {"zero_optimization.stage3_prefetch_bucket_size",
     "how far gathers run ahead follows from max_live_parameters here"},
    {"zero_optimization.zero_hpz_partition_size",
     "no second copy of weights is kept inside hosts here"},
    {"zero_optimization.zero_quantized_*", "weights and gradients travel in 16 bits here"},
    {"zero_optimization.sub_group_size", "the optimizer steps all that a rank has at once here"},
    {"zero_optimization.*", about_detail},
    {"fp16.*", "how the scale is kept in detail"},
    {"bf16.*", about_detail},
    {"bfloat16.*", about_detail},
    {"amp.*", about_detail},
    {"torch_autocast.*", about_detail},
    {"optimizer.params.*", about_kernels},
    {"optimizer.legacy_fusion", about_kernels},
    {"scheduler.params.*", "rates begin and end at 0 here"},
    {"scheduler.*", "no such schedule is built"},
    {"tensor_parallel.*", "how modules are found that are cut"},
    {"expert_parallel.*", "how experts are found that are cut"},
    {"compile.*", about_kernels},
    {"compression_training.*", "compression of weights is not planned"},
    {"sparse_attention.*", "attention to parts of a sequence is not built"},
    {"hybrid_engine.*", "generation in the run is not planned"},
    {"quantize_training.*", "compression of weights is not planned"},
    {"progressive_layer_drop.*", "all blocks take part in every step here"},
    {"graph_harvesting", about_kernels},
    {"use_data_before_expert_parallelism", "experts' ranks are neighbours here"},
    {"torch_dtype", "in which weights are loaded; the precision says how they are trained"},
    {"dtype", "in which weights are loaded; the precision says how they are trained"},
    {"local_rank", "how processes meet"},
    {"torchrun.*", "how processes meet"},
    {"deepspeed.*", "how processes meet"},
    {"sbatch.*", "the queue's; launch files have their own"},
    {"env.*", "the environment of its processes; launch files have their own"},
    {"program", "the script of one's own"},
};

const std::vector<WithoutMeaning> rows = with_those_of_trainer(own_rows);

std::vector<ExportedFile> files(const JobValues& job, const Settings& settings) {
  Settings own, trainers;
  for (const Setting& each : settings.all()) {
    if (is_trainer_setting(each.name)) trainers.add(each.name, each.value);
    if (!is_trainer_setting(each.name) || each.name == "gradient_accumulation_steps")
      own.add(each.name, each.value);
  }
  trainers.add("deepspeed", "ds_config.json");
  std::vector<ExportedFile> all = {{"ds_config.json", json_text(own)}};
  for (ExportedFile& file : trainer_files(job, trainers)) all.push_back(std::move(file));
  return all;
}

Launch launch(const JobValues& job, const Settings&) {
  Launch launch = launch_of(job);
  launch.words = {"train.py", "training_args.json"};
  return launch;
}

}  // namespace

const InteropTarget deepspeed_target = {Framework::deepspeed,
                                        "DeepSpeed, ds_config.json beside transformers' Trainer",
                                        deepspeed_rules,
                                        rows,
                                        files,
                                        launch,
                                        with_trainer_names,
                                        nullptr,
                                        trainer_warnings};

}  // namespace meshwright::interop
