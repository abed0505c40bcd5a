#include <fmt/format.h>
#include <array>

#include "models/core/error.h"
#include "models/job/distribution_v1.h"

namespace meshwright::job {

namespace {

enum class Kind : std::uint8_t { flag, integer, text };

// A key that has no effect here. Each one that is given causes one warning.
struct WithoutEffect {
  const char* key;
  Kind kind;
  const char* why;
};
constexpr std::array<WithoutEffect, 7> without_effect = {{
    {"deterministic_server", Kind::flag, "every schedule here is the same on all ranks"},
    {"skip_tracing", Kind::flag, "nothing is traced: costs are computed from the graph"},
    {"fast_mode", Kind::flag, "schedules are static and sends go straight to the next stage"},
    {"static_mode", Kind::flag, "schedules are always static"},
    {"trace_device", Kind::text, "nothing is traced: costs are computed from the graph"},
    {"ddp_port", Kind::integer, "there is no rendezvous by port"},
    {"tensor_parallel_seed", Kind::integer, "initial values do not depend on the degrees"},
}};

// Reads partition_file: a stored partition (load_partition), or, with auto_partition false, the
// stages of some modules. In the second case all other modules go to default_partition.
void read_stages_of_modules(Fields& fields, Version1& v, Job& job) {
  const bool loads = fields.optional<bool>("load_partition", false);
  const bool has_file = fields.has("partition_file");
  const std::string path = fields.optional<std::string>("partition_file", "");
  if (loads && !has_file)
    fields.fail("load_partition",
                "true needs a partition_file to load; give one (`plan --write-partition FILE` "
                "writes it)");
  if (v.auto_partition && !loads) {
    if (has_file)
      warn(job, fields, "partition_file",
           "no effect: it is read with load_partition true or auto_partition false only");
    return;
  }
  if (v.pipeline > 1 && !has_file)
    fields.fail(
        "auto_partition",
        fmt::format("false puts every module on stage {} and leaves the other stages empty, "
                    "because smp.partition blocks are in training scripts; name the stages of "
                    "modules in a partition_file, {{\"module path\": stage}}",
                    *v.default_partition));
  if (!has_file) return;
  Parallelism read;
  try {
    job.settings_files.push_back(read_partition_file(job, path, read));
  } catch (const InputError& error) {
    fields.fail("partition_file", error.what());
  }
  v.stage_of = read.manual_stage;
  v.names_every_unit = loads;
  if (!loads) v.stage_of.try_emplace("", *v.default_partition);
}

void read_partition_keys(Fields& fields, Version1& v, Job& job) {
  if (fields.has("partitions") && fields.has("pipeline_parallel_degree") &&
      read_degree(fields, "partitions", 1) != read_degree(fields, "pipeline_parallel_degree", 1))
    fields.fail("partitions",
                fmt::format("{} contradicts pipeline_parallel_degree {}, of which it is the old "
                            "name; give one of them",
                            read_degree(fields, "partitions", 1),
                            read_degree(fields, "pipeline_parallel_degree", 1)));
  v.pipeline =
      read_degree(fields, "pipeline_parallel_degree", read_degree(fields, "partitions", 1));
  if (!fields.has("pipeline_parallel_degree")) v.pipeline_key = "partitions";
  take(fields, "auto_partition", v.auto_partition);
  if (fields.has("default_partition")) {
    const int stage = fields.required<int>("default_partition");
    if (stage < 0 || stage >= v.pipeline)
      fields.fail("default_partition", fmt::format("{} is no stage of {}; use 0 to {}", stage,
                                                   v.pipeline, v.pipeline - 1));
    v.default_partition = stage;
    if (v.auto_partition)
      warn(job, fields, "default_partition", "no effect while auto_partition is true");
  }
  if (!v.auto_partition && !v.default_partition)
    fields.fail("default_partition", "must be supplied when auto_partition is false; use 0 to " +
                                         std::to_string(v.pipeline - 1));
  read_stages_of_modules(fields, v, job);
}

void read_schedule_keys(Fields& fields, Version1& v, Job& job) {
  v.microbatches = read_degree(fields, "microbatches", 1);
  const std::string pipeline = fields.optional<std::string>("pipeline", "interleaved");
  if (pipeline == "_only_forward")
    fields.fail("pipeline", "'_only_forward' does not train; use 'interleaved' or 'simple'");
  v.simple = choose(fields, "pipeline", "pipeline", pipeline, {"interleaved", "simple"}) == 1;
  v.speed = choose(fields, "optimize", "optimization",
                   fields.optional<std::string>("optimize", "memory"), {"memory", "speed"}) == 1;
  take(fields, "placement_strategy", v.placement);
  choose(fields, "placement_strategy", "placement", v.placement, placements());
  v.memory_weight = fields.optional<double>("memory_weight", v.speed ? 0.2 : 0.8);
  if (!(v.memory_weight >= 0 && v.memory_weight <= 1))
    fields.fail("memory_weight", fmt::format("{} is out of range; use 0 to 1", v.memory_weight));
  if (v.pipeline == 1 && fields.has("memory_weight"))
    warn(job, fields, "memory_weight", "no effect with one stage");
  if (!fields.has("active_microbatches")) return;
  v.active = read_degree(fields, "active_microbatches", 1);
  if (v.pipeline == 1)
    warn(job, fields, "active_microbatches", "no effect with one stage");
  else if (*v.active > v.microbatches)
    warn(job, fields, "active_microbatches",
         fmt::format("no effect above microbatches {}", v.microbatches));
  else if (v.simple && *v.active < v.microbatches)
    fields.fail("active_microbatches",
                fmt::format("{} cannot bind pipeline 'simple', which forwards all {} microbatches "
                            "first; use 'interleaved' or {}",
                            *v.active, v.microbatches, v.microbatches));
}

void read_data_parallel_keys(Fields& fields, Version1& v, Job& job) {
  take(fields, "ddp", v.ddp);
  const bool horovod = fields.optional<bool>("horovod", false);
  if (horovod && v.ddp) fields.fail("horovod", "cannot be enabled together with ddp; use ddp");
  if (horovod) fields.fail("horovod", "is for TensorFlow, whose scripts are not run here; use ddp");
  for (const char* key : {"ddp_port", "ddp_dist_backend"})
    if (fields.has(key) && !fields.has("ddp")) fields.fail(key, "needs the key 'ddp'; give it too");
  if (fields.has("ddp_port") && fields.required<int>("ddp_port") < 0)
    fields.fail("ddp_port", "is no port; use 0 or more");
  if (fields.has("ddp_dist_backend") &&
      choose(fields, "ddp_dist_backend", "backend",
             fields.required<std::string>("ddp_dist_backend"), {"auto", "nccl"}) == 0)
    warn(job, fields, "ddp_dist_backend", "NCCL's collectives take the place of SageMaker's own");
  v.tensor = read_degree(fields, "tensor_parallel_degree", 1);
  take(fields, "prescaled_batch", v.prescaled);
  take(fields, "shard_optimizer_state", v.shard_optimizer);
  take(fields, "overlapping_allreduce", v.overlap);
}

void read_precision_keys(Fields& fields, Version1& v, Job& job) {
  take(fields, "fp16", v.fp16);
  take(fields, "bf16", v.bf16);
  if (v.fp16 && v.bf16) fields.fail("bf16", "true beside fp16; use one of them");
  if (!fields.optional<bool>("fp16_params", false)) return;
  if (!v.fp16) fields.fail("fp16_params", "has been superseded by fp16; use \"fp16\": true");
  warn(job, fields, "fp16_params", "superseded by fp16, which is on");
}

void read_offload_keys(Fields& fields, Version1& v, Job& job) {
  take(fields, "offload_activations", v.offload);
  v.horizon = read_degree(fields, "activation_loading_horizon", v.horizon);
  if (fields.has("activation_loading_horizon") && !v.offload)
    warn(job, fields, "activation_loading_horizon", "no effect while offload_activations is false");
  if (v.offload && v.pipeline > 1 && v.microbatches == 1 &&
      job.plan.training.recompute != Recompute::none)
    warn(job, fields, "offload_activations", "saves nothing with 1 microbatch");
  if (v.offload) warn_about_offload(fields, "offload_activations", job);
}

void read_sharding_keys(Fields& fields, Version1& v, Job& job) {
  v.shard = read_degree(fields, "sharded_data_parallel_degree", 1);
  for (const auto& [key, target] : {std::pair{"sdp_reduce_bucket_size", &v.bucket},
                                    std::pair{"sdp_param_persistence_threshold", &v.persistence},
                                    std::pair{"sdp_max_live_parameters", &v.live}}) {
    take(fields, key, *target);
    const std::int64_t least = target == &v.persistence ? 0 : 1;
    if (*target < least || *target > (std::int64_t{1} << 50))
      fields.fail(key, fmt::format("{} elements are out of range; use {} or more", *target, least));
  }
  take(fields, "sdp_gradient_clipping", v.clip);
  if (!(v.clip > 0)) fields.fail("sdp_gradient_clipping", "must be above 0");
  take(fields, "sdp_hierarchical_allgather", v.hierarchical);
  if (v.shard == 2 && fields.has("sdp_reduce_bucket_size"))
    warn(job, fields, "sdp_reduce_bucket_size",
         "no effect with sharded_data_parallel_degree 2: it is for degrees above");
  if (v.shard > 1) return;
  for (const char* key :
       {"sdp_reduce_bucket_size", "sdp_param_persistence_threshold", "sdp_max_live_parameters",
        "sdp_gradient_clipping", "sdp_hierarchical_allgather"})
    if (fields.has(key)) warn(job, fields, key, "no effect with sharded_data_parallel_degree 1");
}

void read_rest(Fields& fields, Version1& v, Job& job) {
  if (!fields.optional<bool>("contiguous", true))
    warn(job, fields, "contiguous", "no effect: a stage is always one piece of the chain");
  if (!fields.optional<bool>("delayed_parameter_initialization", true))
    warn(job, fields, "delayed_parameter_initialization",
         "no effect: a rank only ever makes the parameters that it holds, which is what true asks "
         "for");
  for (const WithoutEffect& row : without_effect) {
    if (!fields.has(row.key)) continue;
    if (row.kind == Kind::flag) fields.required<bool>(row.key);
    if (row.kind == Kind::integer) fields.required<int>(row.key);
    if (row.kind == Kind::text) fields.required<std::string>(row.key);
    warn(job, fields, row.key, std::string("no effect: ") + row.why);
  }
  if (fields.has("trace_device"))
    choose(fields, "trace_device", "device", fields.required<std::string>("trace_device"),
           {"cpu", "gpu"});
  read_offload_keys(fields, v, job);
}

}  // namespace

const std::vector<std::string>& version_1_keys() {
  static const std::vector<std::string> keys = {"partitions",
                                                "pipeline_parallel_degree",
                                                "microbatches",
                                                "pipeline",
                                                "optimize",
                                                "placement_strategy",
                                                "auto_partition",
                                                "default_partition",
                                                "contiguous",
                                                "horovod",
                                                "load_partition",
                                                "partition_file",
                                                "memory_weight",
                                                "active_microbatches",
                                                "deterministic_server",
                                                "ddp",
                                                "ddp_port",
                                                "ddp_dist_backend",
                                                "tensor_parallel_degree",
                                                "tensor_parallel_seed",
                                                "prescaled_batch",
                                                "shard_optimizer_state",
                                                "fp16_params",
                                                "fp16",
                                                "bf16",
                                                "offload_activations",
                                                "activation_loading_horizon",
                                                "skip_tracing",
                                                "delayed_parameter_initialization",
                                                "sharded_data_parallel_degree",
                                                "sdp_reduce_bucket_size",
                                                "sdp_param_persistence_threshold",
                                                "sdp_max_live_parameters",
                                                "sdp_hierarchical_allgather",
                                                "sdp_gradient_clipping",
                                                "fast_mode",
                                                "static_mode",
                                                "overlapping_allreduce",
                                                "trace_device"};
  return keys;
}

Version1 read_version_1_keys(Fields& fields, Job& job) {
  Version1 v;
  warn_unknown(fields, version_1_keys(), version_2_keys(), 1, job);
  read_partition_keys(fields, v, job);
  read_schedule_keys(fields, v, job);
  read_data_parallel_keys(fields, v, job);
  read_precision_keys(fields, v, job);
  read_sharding_keys(fields, v, job);
  read_rest(fields, v, job);
  return v;
}

}  // namespace meshwright::job
