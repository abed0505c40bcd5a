#include "sim/predict/predict.h"

#include <algorithm>
#include <chrono>

#include "hwprofiles/topology.h"
#include "models/graph/fusion.h"
#include "models/graph/gpu_scratch.h"
#include "models/lower/lower.h"
#include "models/partition/partition.h"
#include "models/passes/pass.h"
#include "models/passes/recomputed_groups.h"
#include "sim/cost/cost.h"

namespace meshwright {

namespace {

// model_flops() counts one micro-batch on one rank of a tensor and context group; a step has the
// product of the degrees below of them, wherever the stages lie.
double flops_per_step(const Prepared& prepared) {
  const Parallelism& p = prepared.plan.parallelism;
  return model_flops(prepared.graph) * p.tensor * p.context * prepared.plan.replicas() *
         prepared.plan.micro_batches();
}

void add_throughput(const Prepared& prepared, const Cluster& cluster, bool spot,
                    Prediction& result) {
  const Training& training = prepared.plan.training;
  const double step = result.step_time_s;
  result.sequences_per_s = static_cast<double>(training.global_batch) / step;
  result.tokens_per_s = result.sequences_per_s * training.sequence_length;
  const int ranks = prepared.plan.degrees().ranks();
  result.model_flops_per_s_per_gpu = flops_per_step(prepared) / step / ranks;
  const Gpu device = cluster.device();
  result.mfu = result.model_flops_per_s_per_gpu /
               device.peak(executed_precision(device, training.precision)).value;
  result.usd_per_hour = usd_per_hour(cluster, spot);
  if (result.usd_per_hour)
    result.usd_per_million_tokens = *result.usd_per_hour / 3600 / result.tokens_per_s * 1e6;
}

void add_memory(const Prepared& prepared, const Cluster& cluster, Prediction& result) {
  result.memory = stage_memory(prepared.stages, prepared.plan, cluster);
  for (const StageMemory& stage : result.memory)
    result.peak_memory_bytes = std::max(result.peak_memory_bytes, stage.peak_bytes);
  result.memory_limit_bytes = cluster.device().memory_bytes;
  result.host_memory_bytes = host_memory_bytes(prepared.stages, prepared.plan, cluster);
  result.host_memory_limit_bytes = cluster.machine.host.memory_bytes;
  result.framework = prepared.framework;
  const bool fits_device =
      result.framework ? result.framework->fit.fits
                       : static_cast<double>(result.peak_memory_bytes) <= result.memory_limit_bytes;
  result.fits = fits_device &&
                static_cast<double>(result.host_memory_bytes) <= result.host_memory_limit_bytes;
}

// Means over the stages.
void add_idle_times(const ReplayResult& replayed, Prediction& result) {
  const double stages = static_cast<double>(replayed.stages.size());
  for (const StageTimes& stage : replayed.stages) {
    if (stage.span > 0)
      result.bubble_fraction +=
          static_cast<double>(stage.bubble) / static_cast<double>(stage.span) / stages;
    result.exposed_communication_s += to_seconds(stage.exposed_communication).value / stages;
  }
}

// As the engine reserves it. What training frameworks take beside their tensors is in the machine's
// overheads.
std::int64_t scratch_of(const Program& program, const Training& training, const Machine& machine) {
  if (!machine.runs_engine()) return 0;
  if (machine.gpu.kind == DeviceKind::cpu) return scratch_memory(program, scratch_bytes);
  const bool fp8 = training.precision == Precision::fp8;
  return scratch_memory(program, [&](const OpCall& call) { return gpu_scratch_bytes(call, fp8); });
}

std::int64_t second_gradient_bytes(const Program& program, const Plan& plan,
                                   const Machine& machine) {
  const SecondGradient second =
      second_gradient(plan.training, plan.parallelism.zero_stage, machine);
  std::int64_t bytes = 0;
  for (const Bucket& bucket : program.buckets) {
    bytes += second.of_all * bucket.elements;
    if (bucket.owner.includes(program.fullest)) bytes += second.of_own * bucket.shard_elements;
  }
  return bytes;
}

std::optional<StepInterval> interval_of(const Cluster& cluster, double step_time_s) {
  const std::optional<Residuals>& residuals = cluster.machine.residuals;
  if (!residuals) return std::nullopt;
  const auto& interval = cluster.hosts > 1 ? residuals->many_hosts : residuals->one_host;
  if (!interval) return std::nullopt;
  return StepInterval{step_time_s * interval->low, step_time_s * interval->high, interval->rows};
}

}  // namespace

Prepared prepare(const Model& model, Plan plan, const Cluster& cluster) {
  Prepared prepared;
  const Gpu device = cluster.device();
  plan.flops_per_byte = device.peak(executed_precision(device, plan.training.precision)).value /
                        device.memory_bandwidth_bytes_per_s;
  plan.snapshot_on_host = device.kind == DeviceKind::gpu;
  prepared.graph = run_passes(build_graph(model, plan.training), plan);
  if (plan.stage_of_unit.empty()) {
    const CostModel cost(cluster, plan.training);
    plan.stage_of_unit = partition(prepared.graph, plan, cost.unit_costs(prepared.graph),
                                   cost.unit_memory(prepared.graph));
    if (groups_follow_stages(plan.training))
      prepared.graph = run_passes(build_graph(model, plan.training), plan);
  }
  prepared.stages = lower(prepared.graph, plan);
  if (plan.training.memory_of != MemoryOf::engine)
    prepared.framework = framework_use(model, plan.training, cluster);
  prepared.plan = std::move(plan);
#ifndef NDEBUG
  verify(prepared.stages);
#endif
  return prepared;
}

SecondGradient second_gradient(const Training& training, int zero_stage, const Machine& machine) {
  const auto storage = static_cast<std::int64_t>(bytes_of(storage_of(training.precision)));
  const auto full = static_cast<std::int64_t>(bytes_of(Dtype::f32));
  if (storage == full || machine.runs_engine()) return {};
  // Of units that are sharded the gradients of 16 bits are handed on one by one, and only those of
  // 32 stay.
  const bool one_by_one = zero_stage >= 2;
  if (training.gradient_reduce != Dtype::f32) return {.of_own = one_by_one ? full - storage : full};
  return {.of_all = training.fuse_gradient_accumulation || one_by_one ? 0 : storage};
}

std::vector<StageMemory> stage_memory(const std::vector<Program>& stages, const Plan& plan,
                                      const Cluster& cluster) {
  const LibraryOverheads& overheads = cluster.machine.overheads;
  const double library = overheads.context_bytes + overheads.workspace_bytes +
                         (cluster.ranks() > 1 ? overheads.communicator_bytes : 0);
  std::vector<StageMemory> memory;
  for (const Program& program : stages) {
    const std::int64_t gradients = second_gradient_bytes(program, plan, cluster.machine);
    StageMemory stage;
    stage.stage = program.stage;
    stage.class_bytes = program.memory.class_bytes;
    stage.arena_bytes = program.memory.arena_bytes + gradients;
    stage.scratch_bytes = scratch_of(program, plan.training, cluster.machine);
    stage.class_bytes[static_cast<std::size_t>(MemoryClass::workspace)] += stage.scratch_bytes;
    stage.class_bytes[static_cast<std::size_t>(MemoryClass::gradients)] += gradients;
    stage.library_bytes = static_cast<std::int64_t>(library);
    stage.peak_bytes = stage.arena_bytes + stage.scratch_bytes + stage.library_bytes;
    if (cluster.machine.shared_memory) stage.peak_bytes += program.memory.host_bytes;
    memory.push_back(stage);
  }
  return memory;
}

std::int64_t host_memory_bytes(const std::vector<Program>& stages, const Plan& plan,
                               const Cluster& cluster) {
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  std::vector<std::int64_t> of_host(static_cast<std::size_t>(cluster.hosts), 0);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const auto stage = static_cast<std::size_t>(mesh.coordinates(rank).pipeline);
    of_host.at(static_cast<std::size_t>(cluster.host_of(rank))) += stages[stage].memory.host_bytes;
  }
  return *std::ranges::max_element(of_host);
}

Prediction predict(const Prepared& prepared, const Cluster& cluster, bool spot,
                   Timeline* timeline) {
  const auto start = std::chrono::steady_clock::now();
  const Plan& plan = prepared.plan;
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  ReplayOptions options;
  options.timeline = timeline != nullptr;
  ReplayResult replayed = replay(prepared.stages, plan, mesh, Topology(cluster), options);
  Prediction result;
  result.step_time_s = to_seconds(replayed.step_time).value;
  result.interval = interval_of(cluster, result.step_time_s);
  result.calibration = cluster.machine.calibration;
  result.instructions = replayed.instructions;
  add_throughput(prepared, cluster, spot, result);
  add_memory(prepared, cluster, result);
  add_idle_times(replayed, result);
  result.stages = std::move(replayed.stages);
  if (timeline != nullptr) *timeline = std::move(replayed.timeline);
  result.simulation_wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace meshwright
