// Version 1 of SageMaker's model parallel library (2020 to 2023): pipeline, tensor and sharded data
// parallelism under MPI.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/distribution.h"

namespace meshwright {

namespace {

// P, T, S, M and the switches, with the library's defaults.
struct Version1 {
  int pipeline = 1, tensor = 1, shard = 1, microbatches = 1;
  bool simple = false, speed = false, auto_partition = true;
  std::optional<int> active, default_partition;
  double memory_weight = 0.8;
  std::string placement = "cluster";
  bool ddp = false, prescaled = false, shard_optimizer = false, fp16 = false, bf16 = false;
  bool offload = false, overlap = true;
  int horizon = 4;
  std::int64_t bucket = 500'000'000, persistence = 1'000'000, live = 1'000'000'000;  // elements
  double clip = 1;
};

enum class Kind : std::uint8_t { flag, integer, text };

// Keys that change nothing here; each gives one warning line.
struct WithoutEffect {
  const char* key;
  Kind kind;
  const char* why;
};
constexpr std::array<WithoutEffect, 10> without_effect = {{
    {"deterministic_server", Kind::flag, "every schedule here is the same on all ranks"},
    {"skip_tracing", Kind::flag, "nothing is traced: costs are computed from the graph"},
    {"delayed_parameter_initialization", Kind::flag,
     "a rank only ever makes the parameters that it holds"},
    {"sdp_hierarchical_allgather", Kind::flag, "collectives follow the topology"},
    {"fast_mode", Kind::flag, "schedules are static and sends go straight to the next stage"},
    {"static_mode", Kind::flag, "schedules are always static"},
    {"trace_device", Kind::text, "nothing is traced: costs are computed from the graph"},
    {"ddp_port", Kind::integer, "there is no rendezvous by port"},
    {"partition_file", Kind::text, "it is read with load_partition only"},
    {"tensor_parallel_seed", Kind::integer, "initial values do not depend on the degrees"},
}};

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
  if (v.auto_partition) return;
  if (!v.default_partition)
    fields.fail("default_partition", "must be supplied when auto_partition is false; use 0 to " +
                                         std::to_string(v.pipeline - 1));
  if (v.pipeline > 1)
    fields.fail("auto_partition",
                fmt::format("false puts every module on stage {}, for smp.partition blocks live in "
                            "training scripts; use parallelism.partition to place modules",
                            *v.default_partition));
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
  if (v.offload && v.microbatches == 1)
    warn(job, fields, "offload_activations", "saves nothing with 1 microbatch");
  if (v.offload && job.plan.training.recompute == Recompute::none)
    warn(job, fields, "offload_activations", "no effect without activation checkpointing");
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
  if (v.shard > 1) return;
  for (const char* key : {"sdp_reduce_bucket_size", "sdp_param_persistence_threshold",
                          "sdp_max_live_parameters", "sdp_gradient_clipping"})
    if (fields.has(key)) warn(job, fields, key, "no effect with sharded_data_parallel_degree 1");
}

void read_rest(Fields& fields, Version1& v, Job& job) {
  if (!fields.optional<bool>("contiguous", true))
    warn(job, fields, "contiguous", "no effect: a stage is always one piece of the chain");
  if (fields.optional<bool>("load_partition", false))
    fields.fail("load_partition",
                "the format of the library's partition files is not public; use "
                "parallelism.partition");
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

// pp * tp * rdp = N, and what goes with what.
void check_degrees(const Fields& fields, const Version1& v, int ranks) {
  const std::int64_t model = static_cast<std::int64_t>(v.pipeline) * v.tensor;
  if (ranks % v.pipeline != 0)
    fields.fail("pipeline_parallel_degree",
                fmt::format("{} does not divide the {} processes", v.pipeline, ranks));
  if (ranks % model != 0)
    fields.fail("tensor_parallel_degree",
                fmt::format("{} does not divide {} processes / pipeline_parallel_degree {} = {}",
                            v.tensor, ranks, v.pipeline, ranks / v.pipeline));
  if (v.tensor > 1 && !v.ddp)
    fields.fail("ddp", fmt::format("must be true with tensor_parallel_degree {}, which runs across "
                                   "data-parallel ranks",
                                   v.tensor));
  if (v.bf16 && v.shard == 1)
    fields.fail("bf16",
                "needs sharded_data_parallel_degree above 1; give it, or use \"fp16\": true");
  if (v.shard == 1) return;
  if (v.pipeline > 1)
    fields.fail(
        "sharded_data_parallel_degree",
        fmt::format("{} does not go with pipeline_parallel_degree {}; use 1 for one of them",
                    v.shard, v.pipeline));
  if (v.shard_optimizer)
    fields.fail("shard_optimizer_state",
                fmt::format("does not go with sharded_data_parallel_degree {}, which shards it "
                            "already; use false",
                            v.shard));
  if (v.tensor > 1 && !v.prescaled)
    fields.fail("prescaled_batch",
                fmt::format("must be true with sharded_data_parallel_degree {} and "
                            "tensor_parallel_degree {}",
                            v.shard, v.tensor));
  const std::int64_t replicas = ranks / model;
  if (replicas % v.shard != 0)
    fields.fail("sharded_data_parallel_degree",
                fmt::format("{} does not divide {} processes / tensor_parallel_degree {} = {}",
                            v.shard, ranks, v.tensor, replicas));
}

void advise(const Fields& fields, const Version1& v, const DistributionContext& context,
            int ranks) {
  Job& job = context.job;
  if ((v.tensor & (v.tensor - 1)) != 0)
    warn(job, fields, "tensor_parallel_degree",
         fmt::format("{} is not a power of two, which is advised", v.tensor));
  const int per_host = ranks / context.cluster.hosts;
  if (v.tensor > per_host)
    warn(
        job, fields, "tensor_parallel_degree",
        fmt::format("{} spans hosts of {} processes; at most that is advised", v.tensor, per_host));
  if (!v.ddp && ranks > v.pipeline)
    warn(job, fields, "ddp",
         fmt::format("false although {} replicas train; their gradients are summed all the same",
                     ranks / v.pipeline));
  if (v.tensor > 1 && v.speed)
    warn(
        job, fields, "optimize",
        "'speed' runs as layout 'megatron': column and row splits, whole activations on each rank");
}

void set_batch(const Fields& fields, const Version1& v, const DistributionContext& context) {
  Training& training = context.job.plan.training;
  const std::int64_t parts =
      static_cast<std::int64_t>(context.job.plan.parallelism.data) * v.microbatches;
  if (training.global_batch % parts != 0)
    fields.fail("microbatches",
                fmt::format("global_batch {} is not a multiple of data {} x microbatches {} = {}; "
                            "use global_batch {}",
                            training.global_batch, context.job.plan.parallelism.data,
                            v.microbatches, parts, (training.global_batch / parts + 1) * parts));
  const std::int64_t micro_batch = training.global_batch / parts;
  if (context.given("micro_batch") && !context.job.is_auto("training.micro_batch") &&
      training.micro_batch != micro_batch)
    fields.fail("microbatches", fmt::format("{} gives micro_batch {} / {} = {}, which contradicts "
                                            "training.micro_batch {}; keep one of them",
                                            v.microbatches, training.global_batch, parts,
                                            micro_batch, training.micro_batch));
  if (micro_batch > 1'000'000'000) fields.fail("microbatches", "gives too large a micro_batch");
  training.micro_batch = static_cast<int>(micro_batch);
  context.job.autos.erase("training.micro_batch");
}

void set_precision(const Fields& fields, const Version1& v, const DistributionContext& context) {
  Training& training = context.job.plan.training;
  const bool named = context.given("precision") && !context.job.is_auto("training.precision");
  if (v.fp16 || v.bf16) {
    const Precision asked = v.fp16 ? Precision::fp16 : Precision::bf16;
    if (named && training.precision != asked)
      fields.fail(v.fp16 ? "fp16" : "bf16", fmt::format("contradicts training.precision '{}'; keep "
                                                        "one of them",
                                                        name_of(training.precision)));
    training.precision = asked;
    context.job.autos.erase("training.precision");
    if (v.fp16 && !training.loss_scale) training.loss_scale = LossScale{};  // static, 1
  } else if (!context.given("precision")) {
    training.precision = Precision::fp32;
    context.job.autos.erase("training.precision");
  }
}

void set_sharding(const Fields& fields, const Version1& v, const DistributionContext& context) {
  Plan& plan = context.job.plan;
  if (v.shard_optimizer) plan.parallelism.zero_stage = 1;
  if (v.shard == 1) return;
  plan.parallelism.zero_stage = 3;
  plan.parallelism.shard = v.shard;
  // Elements of the type that gradients have.
  plan.parallelism.reduce_bucket_bytes = v.bucket * bytes_of(storage_of(plan.training.precision));
  plan.parallelism.persistence_threshold = v.persistence;
  plan.parallelism.max_live_parameters = v.live;
  if (context.given("gradient_clip") && plan.training.gradient_clip != v.clip)
    fields.fail("sdp_gradient_clipping",
                fmt::format("{} contradicts training.gradient_clip {}; keep one of them", v.clip,
                            plan.training.gradient_clip));
  plan.training.gradient_clip = v.clip;
}

void set_parallelism(const Version1& v, const DistributionContext& context, int ranks) {
  Parallelism& p = context.job.plan.parallelism;
  p.pipeline = v.pipeline;
  p.tensor = v.tensor;
  p.data = ranks / (v.pipeline * v.tensor);
  p.schedule = v.simple ? ScheduleKind::gpipe : ScheduleKind::one_f_one_b;
  if (v.pipeline > 1 && !v.simple) p.active_microbatches = v.active.value_or(v.pipeline + 2);
  p.placement = v.placement;
  p.overlap_gradients = v.overlap;
  if (v.pipeline > 1) {
    p.partitioner = Partitioner::tree;
    p.memory_weight = v.memory_weight;
  }
  if (v.tensor > 1) {
    p.tensor_layout = v.speed ? "megatron" : "memory";
    p.tensor_batch_own = !v.prescaled;
  }
  if (v.offload) {
    p.offload = "activations";
    p.offload_horizon = v.horizon;
  }
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

void read_version_1(Fields fields, const DistributionContext& context) {
  Job& job = context.job;
  Version1 v;
  warn_unknown(fields, version_1_keys(), version_2_keys(), 1, job);
  read_partition_keys(fields, v, job);
  read_schedule_keys(fields, v, job);
  read_data_parallel_keys(fields, v, job);
  read_precision_keys(fields, v, job);
  read_sharding_keys(fields, v, job);
  read_rest(fields, v, job);
  const std::int64_t model = static_cast<std::int64_t>(v.pipeline) * v.tensor;
  const int ranks = context.ranks(static_cast<int>(std::min<std::int64_t>(model, 1 << 30)));
  check_degrees(fields, v, ranks);
  advise(fields, v, context, ranks);
  set_parallelism(v, context, ranks);
  set_batch(fields, v, context);
  set_precision(fields, v, context);
  set_sharding(fields, v, context);
}

}  // namespace meshwright
