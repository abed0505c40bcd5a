// Renames settings of torchtitan before 2025, and of NeMo AutoModel, to those of torchtitan 0.2.
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

struct TitanName {
  std::string_view other, name;
};
constexpr TitanName other_names[] = {
    {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
    {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.sequence_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"},
    {"training.enable_loss_parallel", "parallelism.enable_loss_parallel"},
    {"training.warmup_steps", "lr_scheduler.warmup_steps"},
    {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"},
    {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
    {"experimental.context_parallel_rotate_method", "parallelism.context_parallel_rotate_method"},
    {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"experimental.pipeline_parallel_microbatches", "parallelism.num_pp_microbatches"},
    {"training.seed", "debug.seed"},
    {"training.deterministic", "debug.deterministic"},
};

}  // namespace

Settings with_names_of_titan(Settings settings, const JobDraft&) {
  read_automodel(settings);
  for (const TitanName& row : other_names)
    for (const Setting& each : std::vector<Setting>(settings.all())) {
      if (!same_name(each.name, row.other)) continue;
      const std::string spelling = settings.spelled(each.name);
      settings.remove(row.other);
      if (settings.has(row.name)) continue;
      settings.add(std::string(row.name), each.value, each.place);
      settings.show_as(std::string(row.name), spelling);
    }
  return settings;
}

}  // namespace meshwright::interop
