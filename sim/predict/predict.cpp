#include "sim/predict/predict.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "hwprofiles/topology.h"
#include "models/core/error.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/gpu_scratch.h"
#include "models/program/graph/op_table.h"
#include "sim/cost/cost.h"
#include "sim/predict/megatron_memory.h"
#include "sim/predict/pytorch_memory.h"
#include "sim/predict/unseen_sources.h"

namespace meshwright::sim {

namespace {

// Returns the model FLOPs of a step. model_flops() counts one micro-batch on one rank of a tensor
// and context group, with all stages together. It is multiplied by the ranks of such groups, the
// replicas and the micro-batches.
double flops_per_step(const Compiled& compiled) {
  const Parallelism& p = compiled.plan.parallelism;
  return model_flops(compiled.graph) * p.tensor * p.context * compiled.plan.replicas() *
         compiled.plan.micro_batches();
}

void add_throughput(const Compiled& compiled, const Cluster& cluster, const PriceChoice& choice,
                    Prediction& result) {
  const Training& training = compiled.plan.training;
  const double step = result.step_time_s;
  result.sequences_per_s = static_cast<double>(training.global_batch) / step;
  result.tokens_per_s = result.sequences_per_s * training.sequence_length;
  const int ranks = compiled.plan.degrees().ranks();
  result.model_flops_per_s_per_gpu = flops_per_step(compiled) / step / ranks;
  const Gpu device = cluster.device();
  result.mfu = result.model_flops_per_s_per_gpu /
               device.peak(executed_precision(device, training.precision)).value;
  if (const Price* price = find_price(cluster.machine.prices, choice)) result.price = *price;
  result.usd_per_hour = usd_per_hour(cluster, choice);
  if (result.usd_per_hour)
    result.usd_per_million_tokens = *result.usd_per_hour / 3600 / result.tokens_per_s * 1e6;
}

void add_memory(const Compiled& compiled, const Cluster& cluster, Prediction& result) {
  result.memory = stage_memory(compiled.stages, cluster);
  for (const StageMemory& stage : result.memory)
    result.peak_memory_bytes = std::max(result.peak_memory_bytes, stage.peak_bytes);
  result.memory_limit_bytes = cluster.device().memory_bytes;
  result.host_memory_bytes = host_memory_bytes(compiled.stages, cluster);
  result.host_memory_limit_bytes = cluster.machine.host.memory_bytes;
  const bool fits_device =
      result.framework ? result.framework->fit.fits
                       : static_cast<double>(result.peak_memory_bytes) <= result.memory_limit_bytes;
  result.fits = fits_device &&
                static_cast<double>(result.host_memory_bytes) <= result.host_memory_limit_bytes;
}

// Adds the bubble, as a share of the span, and the exposed communication, as means over the stages.
void add_idle_times(const ReplayResult& replayed, Prediction& result) {
  const double stages = static_cast<double>(replayed.stages.size());
  for (const StageTimes& stage : replayed.stages) {
    if (stage.span > 0)
      result.bubble_fraction +=
          static_cast<double>(stage.bubble) / static_cast<double>(stage.span) / stages;
    result.exposed_communication_s += to_seconds(stage.exposed_communication).value / stages;
  }
}

// Returns the bytes of the copies that PyTorch makes of logits, in fp32, in addition to the result
// that its log-softmax saves: of the logits in the forward, of their gradient in the backward, one
// at a time. If ranks share the logits (torch.distributed.tensor.parallel.loss_parallel) there are
// four copies at once: the logits or their log-softmax, the shifted or picked ones, exponents, and
// the result.
std::int64_t copies_of_logits(const Instruction& instruction) {
  if (instruction.kind != InstructionKind::compute) return 0;
  const auto wide_bytes = [](const TensorType& type) {
    return type.shape.elements() * static_cast<std::int64_t>(bytes_of(Dtype::f32));
  };
  const TensorType& logits = instruction.inputs[0].type;
  const TensorType& made = instruction.outputs[0].type;
  switch (instruction.op) {
    case Op::log_softmax:
      return logits.dtype == Dtype::f32 ? 0 : wide_bytes(logits);
    case Op::log_softmax_grad:
      return made.dtype == Dtype::f32 ? 0 : wide_bytes(made);
    case Op::cross_entropy_stats:
      return instruction.attributes.storage == Dtype::f32 ? 0 : 4 * wide_bytes(logits);
    default:
      return 0;
  }
}

std::int64_t scratch_of_framework(const Program& program) {
  std::int64_t most = 0;
  for (const Body& body : program.bodies)
    for (const Instruction& each : body.instructions)
      if (!each.inputs.empty() && !each.outputs.empty())
        most = std::max(most, copies_of_logits(each));
  return most;
}

// Returns the scratch bytes that the engine reserves, or a framework's largest copies of logits.
// Other temporary memory of training frameworks is in the machine's overheads.
std::int64_t scratch_of(const Program& program, const Machine& machine) {
  if (!machine.runs_engine()) return scratch_of_framework(program);
  if (machine.gpu.kind == DeviceKind::cpu) return scratch_memory(program, scratch_bytes);
  return scratch_memory(program, gpu_scratch_bytes);
}

// Returns whether a framework holds fp32 masters, from which it casts weights.
bool casts_masters(const StepSettings& training, const Machine& machine) {
  return training.master_type() == Dtype::f32 && !machine.runs_engine();
}

// Returns the bytes that frameworks save for weights that a step rounds to 8 bits at its begin:
// their copies in 16 bits if they keep 8 bits only, or their shards in 8 bits, because FSDP rounds
// when it gathers.
std::int64_t rounded_left_out(const Program& program, const Machine& machine) {
  const StepSettings& training = program.settings->training;
  std::int64_t bytes = 0;
  for (const Body& body : program.bodies)
    for (const Instruction& each : body.instructions) {
      if (body.kind != Body::Kind::step_begin || each.kind != InstructionKind::compute ||
          each.op != Op::quantize)
        continue;
      if (each.bucket < 0 && keeps_8_bits_alone(training, machine))
        bytes += each.inputs[0].type.bytes();
      if (each.bucket >= 0 && casts_masters(training, machine))
        bytes += each.outputs[0].type.bytes();
    }
  return bytes;
}

std::optional<StepInterval> interval_of(const Compiled& compiled, const Cluster& cluster,
                                        double step_time_s) {
  const std::optional<Residuals>& residuals = cluster.machine.residuals;
  if (!residuals) return std::nullopt;
  const bool has_experts = std::ranges::any_of(
      compiled.graph.nodes, [](const Node& node) { return node.op == Op::dispatch; });
  std::optional<Residuals::Interval> interval = unseen_sources(compiled.plan.training, has_experts);
  if (!interval) interval = cluster.hosts > 1 ? residuals->many_hosts : residuals->one_host;
  if (!interval) return std::nullopt;
  return StepInterval{step_time_s * interval->low, step_time_s * interval->high, interval->rows};
}

}  // namespace

FrameworkBytes framework_bytes(const Bucket& bucket, const StepSettings& training,
                               const Machine& machine) {
  const auto storage = static_cast<std::int64_t>(bytes_of(storage_of(training.precision)));
  const auto full = static_cast<std::int64_t>(bytes_of(Dtype::f32));
  FrameworkBytes bytes;
  if (bucket.frozen || storage >= full || machine.runs_engine()) return bytes;
  const bool has_masters = casts_masters(training, machine);
  const bool one_by_one = bucket.gradients.type.shape.elements() < bucket.elements;
  if (training.gradient_reduce != Dtype::f32 && has_masters)
    bytes.own_gradients = (one_by_one ? full - storage : full) * bucket.shard_elements;
  if (training.gradient_reduce == Dtype::f32 && !training.fuse_gradient_accumulation && !one_by_one)
    bytes.second_gradients = storage * bucket.elements;
  if (has_masters && bucket.weights.type.shape.elements() < bucket.elements)
    bytes.shards_left_out = storage * bucket.shard_elements;
  return bytes;
}

bool keeps_8_bits_alone(const StepSettings& training, const Machine& machine) {
  return training.precision == Precision::fp8 && casts_masters(training, machine);
}

double library_bytes(const Cluster& cluster) {
  const LibraryOverheads& overheads = cluster.machine.overheads;
  return overheads.context_bytes + overheads.workspace_bytes +
         (cluster.ranks() > 1 ? overheads.communicator_bytes : 0);
}

namespace {

bool has_them_anew(const Program& program) {
  const JobSettings& job = *program.settings;
  return program.memory.host_bytes == 0 &&
         makes_gradients_anew(job.training, program.layout.stages, program.micro_batches,
                              job.zero_stage < 3 && job.degrees.rdp() > 1);
}

}  // namespace

StageMemory stage_memory(const Program& program, const Cluster& cluster) {
  std::int64_t gradients = 0, weights = rounded_left_out(program, cluster.machine);
  for (const Bucket& bucket : program.buckets) {
    const FrameworkBytes bytes =
        framework_bytes(bucket, program.settings->training, cluster.machine);
    gradients += bytes.second_gradients;
    if (bucket.owner.includes(program.fullest)) gradients += bytes.own_gradients;
    weights += bytes.shards_left_out;
  }
  StageMemory stage;
  stage.stage = program.stage;
  stage.class_bytes =
      has_them_anew(program) ? peak_in_pytorch(program) : program.memory.class_bytes;
  stage.class_bytes[static_cast<std::size_t>(MemoryClass::activations)] -=
      expert_outputs_left_out(program);
  stage.arena_bytes =
      std::accumulate(stage.class_bytes.begin(), stage.class_bytes.end(), gradients - weights);
  stage.scratch_bytes = scratch_of(program, cluster.machine);
  stage.class_bytes[static_cast<std::size_t>(MemoryClass::workspace)] += stage.scratch_bytes;
  stage.class_bytes[static_cast<std::size_t>(MemoryClass::gradients)] += gradients;
  stage.class_bytes[static_cast<std::size_t>(MemoryClass::parameters)] -= weights;
  stage.library_bytes = static_cast<std::int64_t>(library_bytes(cluster));
  stage.peak_bytes = stage.arena_bytes + stage.scratch_bytes + stage.library_bytes;
  if (cluster.machine.shared_memory) stage.peak_bytes += program.memory.host_bytes;
  return stage;
}

std::vector<StageMemory> stage_memory(const std::vector<Program>& stages, const Cluster& cluster) {
  std::vector<StageMemory> memory;
  for (const Program& program : stages) memory.push_back(stage_memory(program, cluster));
  return memory;
}

std::int64_t host_memory_bytes(const std::vector<Program>& stages, const Cluster& cluster) {
  const Mesh mesh = stages.front().settings->mesh();
  std::vector<std::int64_t> of_host(cluster.hosts, 0);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const auto stage = static_cast<std::size_t>(mesh.coordinates(rank).pipeline);
    of_host.at(cluster.host_of(rank)) += stages[stage].memory.host_bytes;
  }
  return *std::ranges::max_element(of_host);
}

Prediction predict(const Compiled& compiled, const Cluster& cluster,
                   const PredictOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  MESHWRIGHT_CHECK(options.framework || compiled.plan.training.memory_of == MemoryOf::engine,
                   "whoever's memory is meant, it is known");
  ReplayOptions replay_options;
  replay_options.timeline = options.timeline != nullptr;
  ReplayResult replayed = replay(compiled.stages, Topology(cluster), replay_options);
  Prediction result;
  result.step_time = replayed.step_time;
  result.step_time_s = to_seconds(replayed.step_time).value;
  result.interval = interval_of(compiled, cluster, result.step_time_s);
  result.calibration = cluster.machine.calibration;
  result.instructions = replayed.instructions;
  result.framework = options.framework;
  add_throughput(compiled, cluster, options.price == nullptr ? PriceChoice() : *options.price,
                 result);
  add_memory(compiled, cluster, result);
  add_idle_times(replayed, result);
  result.stages = std::move(replayed.stages);
  if (options.timeline != nullptr) *options.timeline = std::move(replayed.timeline);
  result.simulation_wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace meshwright::sim
