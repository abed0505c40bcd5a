// Reads version 1 of SageMaker's model parallel library (2020 to 2023): pipeline, tensor and
// sharded data parallelism under MPI. Checks the library's rules and translates its keys into a
// plan.
#include <fmt/format.h>
#include <algorithm>

#include "models/core/error.h"
#include "models/job/distribution_v1.h"

namespace meshwright::job {

namespace {

// Checks that the degrees divide the ranks (pipeline * tensor * reduced data parallel = ranks), and
// that the settings can be combined.
void check_degrees(const Fields& fields, const Version1& v, int ranks) {
  const std::int64_t model = static_cast<std::int64_t>(v.pipeline) * v.tensor;
  if (ranks % v.pipeline != 0)
    fields.fail(v.pipeline_key,
                wrong_choice(divisors_of(ranks), "", "{} does not divide the {} processes; use ",
                             v.pipeline, ranks));
  if (ranks % model != 0)
    fields.fail(
        "tensor_parallel_degree",
        wrong_choice(divisors_of(ranks / v.pipeline), "",
                     "{} does not divide {} processes / pipeline_parallel_degree {} = {}; use ",
                     v.tensor, ranks, v.pipeline, ranks / v.pipeline));
  if (v.tensor > 1 && !v.ddp)
    fields.fail("ddp", fmt::format("must be true with tensor_parallel_degree {}, which runs across "
                                   "data-parallel ranks; use true, or degree 1",
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
                            "tensor_parallel_degree {}; use true",
                            v.shard, v.tensor));
  const std::int64_t replicas = ranks / model;
  if (replicas % v.shard != 0)
    fields.fail(
        "sharded_data_parallel_degree",
        wrong_choice(divisors_of(replicas), "",
                     "{} does not divide {} processes / tensor_parallel_degree {} = {}; use ",
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
        fmt::format("tensor groups of {0} ranks span hosts, which have {1} processes each; at most "
                    "{1} is advised",
                    v.tensor, per_host));
  if (!v.ddp && ranks > v.pipeline)
    warn(job, fields, "ddp",
         fmt::format("false although {} replicas train; their gradients are summed all the same",
                     ranks / v.pipeline));
}

void set_batch(const Fields& fields, const Version1& v, const DistributionContext& context) {
  Training& training = context.job.plan.training;
  const Parallelism& p = context.job.plan.parallelism;
  const std::int64_t parts = static_cast<std::int64_t>(p.data) * v.microbatches;
  const std::int64_t batches = parts * (p.tensor_batch_own ? p.tensor : 1);
  if (p.tensor_batch_own && training.global_batch % batches != 0)
    fields.fail("microbatches",
                fmt::format("global_batch {} is not a multiple of {} data-parallel ranks x "
                            "microbatches {} = {}, because each of {} tensor ranks reads a batch "
                            "of its own; use global_batch {}, or prescaled_batch true",
                            training.global_batch, p.data * p.tensor, v.microbatches, batches,
                            p.tensor, (training.global_batch / batches + 1) * batches));
  if (training.global_batch % parts != 0)
    fields.fail("microbatches",
                fmt::format("global_batch {} is not a multiple of data {} x microbatches {} = {}; "
                            "use global_batch {}",
                            training.global_batch, p.data, v.microbatches, parts,
                            (training.global_batch / parts + 1) * parts));
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
    if (v.fp16 && !training.loss_scale) training.loss_scale = LossScale{};  // a static scale of 1
  } else if (!context.given("precision")) {
    training.precision = Precision::fp32;
    context.job.autos.erase("training.precision");
  }
}

void set_sharding(const Fields& fields, const Version1& v, const DistributionContext& context) {
  Plan& plan = context.job.plan;
  if (v.shard_optimizer) {
    plan.parallelism.zero_stage = 1;
    plan.parallelism.shard_whole = true;
  }
  if (v.shard == 1) return;
  plan.parallelism.zero_stage = 3;
  plan.parallelism.shard = v.shard;
  // The library counts a bucket in elements, which have the type of gradients.
  if (v.shard > 2)
    plan.parallelism.reduce_bucket_bytes = v.bucket * bytes_of(storage_of(plan.training.precision));
  plan.parallelism.persistence_threshold = v.persistence;
  plan.parallelism.max_live_parameters = v.live;
  plan.parallelism.hierarchical_gather = v.hierarchical;
  if (context.given("gradient_clip") && plan.training.gradient_clip != v.clip)
    fields.fail("sdp_gradient_clipping",
                fmt::format("{} contradicts training.gradient_clip {}; keep one of them", v.clip,
                            plan.training.gradient_clip));
  plan.training.gradient_clip = v.clip;
}

// Sets the attention kernel of a job that leaves it open, as the library does. Its fused kernel
// takes heads whose width is a multiple of 8 below 128. For other heads, the score matrix is stored
// in memory. Throws InputError if the job sets a fused kernel for such heads.
void settle_attention(const DistributionContext& context) {
  Job& job = context.job;
  const int width =
      job.model.head_dim > 0 ? job.model.head_dim : job.model.hidden / job.model.heads;
  if (width % 8 == 0 && width < 128) return;
  if (job.is_auto("training.attention")) {
    if (context.cluster.facts.is_cpu) return;  // a dry run, with this engine's own kernels
    job.plan.training.attention = AttentionKernel::unfused;
    job.autos.erase("training.attention");
    return;
  }
  if (job.plan.training.attention == AttentionKernel::unfused) return;
  throw InputError(in_file(
      job.file, broken("/training/attention",
                       "version 1's FlashAttention needs heads of a multiple of 8 below 128 wide, "
                       "the model's are {}; use 'unfused'",
                       width)));
}

// Returns whether activations are offloaded layer by layer, as the library does since 1.8.1, and
// not per task. With pipeline stages, the time of other tasks is enough for the transfer.
// Activations that are not recomputed block by block cannot be moved by layer.
bool offloads_by_layer(const Version1& v, const Job& job) {
  const Training& training = job.plan.training;
  return v.pipeline == 1 && !job.model.has_decoder() && training.recompute_modules.empty() &&
         training.recompute != Recompute::selective && training.recompute != Recompute::none;
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
    p.partitioner = v.stage_of.empty() ? Partitioner::tree : Partitioner::manual;
    p.memory_weight = v.memory_weight;
    p.manual_stage = v.stage_of;
    p.names_every_unit = v.names_every_unit;
  }
  if (v.tensor > 1) {
    p.tensor_layout = v.speed ? TensorLayout::speed : TensorLayout::memory;
    p.tensor_batch_own = !v.prescaled;
  }
  if (v.offload) {
    p.offload = offloads_by_layer(v, context.job) ? Offload::layers : Offload::activations;
    p.offload_horizon = v.horizon;
  }
}

}  // namespace

void read_version_1(Fields fields, const DistributionContext& context) {
  const Version1 v = read_version_1_keys(fields, context.job);
  const std::int64_t model = static_cast<std::int64_t>(v.pipeline) * v.tensor;
  const int ranks = context.ranks(static_cast<int>(std::min<std::int64_t>(model, 1 << 30)));
  check_degrees(fields, v, ranks);
  settle_attention(context);
  advise(fields, v, context, ranks);
  set_parallelism(v, context, ranks);
  set_batch(fields, v, context);
  set_precision(fields, v, context);
  set_sharding(fields, v, context);
}

}  // namespace meshwright::job
