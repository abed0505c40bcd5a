// The memory half of BoundMaker, and the partition that it knows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/partition/partition.h"
#include "models/schedule/slot_pools.h"
#include "sim/planner/bounds.h"
#include "sim/planner/mixed_recompute.h"
#include "sim/predict/predict.h"

namespace meshwright {

namespace {

// More blocks may be packed a little closer than three.
constexpr double packing_allowance = 0.98;
// From so many micro-batches per stage on, no more are in flight.
constexpr int steady_micro_batches_per_stage = 4;

}  // namespace

bool BoundMaker::works_by_units(const Candidate& candidate) const {
  return candidate.zero_stage == 3 || reduces_each(candidate);
}

double BoundMaker::bytes_per_parameter(const Candidate& candidate) const {
  const Training& t = base_.training;
  const double storage = static_cast<double>(bytes_of(storage_of(t.precision)));
  const double share = 1.0 / candidate.shards();
  const int zero = candidate.zero_stage;
  const bool gradients_cut = zero >= 1 && reduces_each(candidate);
  const SecondGradient second = second_gradient(t, gradients_cut, cluster_.machine);
  const auto left_out = static_cast<double>(shard_left_out(t, cluster_.machine));
  // Small parameters, and experts, may have no shards to be gathered from.
  const bool all_gathered = zero == 3 && candidate.keeps_gathered;
  const bool all_cut = base_.parallelism.persistence_threshold == 0 && candidate.expert == 1;
  return static_cast<double>(second.of_all) +
         static_cast<double>(second.of_own) * (zero >= 1 ? share : 1) +
         (zero < 3 && keeps_8_bits_alone(t, cluster_.machine) ? 1
          : all_gathered || zero < 3                          ? storage
                                                              : 0) +
         (storage - left_out) * (zero < 3 || (all_gathered && !all_cut) ? 0 : share) +
         static_cast<double>(bytes_of(t.gradient_reduce)) * (gradients_cut ? share : 1) +
         static_cast<double>(t.optimizer_bytes()) * (zero >= 1 ? share : 1);
}

// Units take turns in two buffers of each kind; without overlap, or under a cap, at least one holds
// gathered weights.
double BoundMaker::unit_buffer_bytes(const Candidate& candidate, int blocks) const {
  const Parallelism& p = base_.parallelism;
  const bool gathers = candidate.zero_stage == 3 && !candidate.keeps_gathered;
  const bool reduces = reduces_each(candidate);
  if (candidate.replicas() == 1 || p.persistence_threshold > 0) return 0;
  if (candidate.zero_stage == 0 && candidate.expert > 1) return 0;
  const int turns = std::min(2, blocks);
  const bool one_gathered = !p.overlap_parameters || p.max_live_parameters > 0;
  const auto weight = static_cast<double>(bytes_of(storage_of(base_.training.precision)));
  const auto gradient = static_cast<double>(bytes_of(base_.training.gradient_reduce));
  return (gathers ? weight * std::min(turns, one_gathered ? 1 : 2) : 0) +
         (reduces ? gradient * turns : 0);
}

double BoundMaker::fixed_bytes() const {
  const LibraryOverheads& library = cluster_.machine.overheads;
  return library.context_bytes + library.workspace_bytes +
         (cluster_.ranks() > 1 ? library.communicator_bytes : 0);
}

int BoundMaker::in_flight(const Candidate& candidate, int stage) const {
  const int count = micro_batches(candidate), bound = base_.parallelism.active_microbatches;
  const int own =
      schedule_info(candidate.schedule).forwards_all ? count : candidate.pipeline - stage;
  return std::min({count, own, bound > 0 ? bound : own});
}

MemoryBounds BoundMaker::memory(const Candidate& candidate) {
  if (candidate.pipeline == 1)
    return {single_stage_memory(candidate, false), single_stage_memory(candidate, true)};
  if (!knows_partition(candidate)) {
    const double least = any_partition_memory(candidate);
    return {least, least};
  }
  const MemoryBounds stages = stage_memory(candidate);
  return {packing_allowance * stages.least_bytes, stages.likely_bytes};
}

// Blocks that repeat their work keep at least nothing, and likely what such blocks keep.
double BoundMaker::single_stage_memory(const Candidate& candidate, bool likely) {
  const KeptBytes& kept = is_mixed(candidate) ? profiles_.kept(keeping(candidate), Recompute::none)
                                              : profiles_.kept(candidate, candidate.recompute);
  const bool mixed = is_mixed(candidate);
  const int again = mixed ? repeated_blocks(model_.layers, candidate.recompute_fraction) : 0;
  double bytes = (model_.layers - again) * static_cast<double>(kept.block);
  if (likely && mixed)
    bytes += again * static_cast<double>(profiles_.kept(candidate, candidate.recompute).block);
  if (likely || !mixed) bytes += static_cast<double>(kept.other);
  // Unit by unit the compute stream waits more often, so buffers live shorter.
  const bool waits = !likely && works_by_units(candidate);
  const auto task = static_cast<double>(waits ? kept.largest_task : kept.task);
  return fixed_bytes() + bytes_per_parameter(candidate) * work(candidate).parameters +
         unit_buffer_bytes(candidate, model_.layers) * work(candidate).block_parameters +
         in_flight(candidate, 0) * bytes + (likely || !mixed ? task : 0);
}

double BoundMaker::any_partition_memory(const Candidate& candidate) {
  if (model_.has_decoder()) return fixed_bytes();  // blocks of two kinds: left to the exact plan
  const bool mixed = is_mixed(candidate);
  const double kept =
      static_cast<double>((mixed ? profiles_.kept(keeping(candidate), Recompute::none)
                                 : profiles_.kept(candidate, candidate.recompute))
                              .block);
  const double states = bytes_per_parameter(candidate) * work(candidate).block_parameters;
  const double kept_blocks =
      model_.layers - (mixed ? repeated_blocks(model_.layers, candidate.recompute_fraction) : 0);
  double shares = 0, turns = 0;
  for (int stage = 0; stage < candidate.pipeline; ++stage) {
    const double batches = in_flight(candidate, stage);
    shares += 1 / (states + batches * (mixed ? 0 : kept));
    turns += 1 / batches;
  }
  const double all_states = model_.layers * states / in_flight(candidate, 0);
  return fixed_bytes() +
         std::max(model_.layers / shares, mixed ? (all_states + kept_blocks * kept) / turns : 0);
}

// Like the units of Work: kinds of blocks that are cut into stages of their own.
bool BoundMaker::knows_partition(const Candidate& candidate) const {
  const Parallelism& p = base_.parallelism;
  return candidate.pipeline > 1 && !model_.has_decoder() && !model_.shares_layers() &&
         model_.layers >= 3 && p.partitioner == Partitioner::chain && p.memory_weight == 0 &&
         !base_.training.recompute_budget && base_.training.recompute_modules.empty() &&
         (candidate.recompute == Recompute::none || candidate.recompute == Recompute::selective ||
          candidate.recompute == Recompute::full);
}

// Cut by the costs of its units, which a small model tells.
const BoundMaker::Cut& BoundMaker::partition(const Candidate& candidate) {
  const std::vector<double>& of_units = profiles_.costs(candidate);
  const int parts = candidate.pipeline * candidate.virtual_stages;
  return measured_->partitions.get({&of_units, parts}, [&] {
    std::vector<double> costs = of_units;
    const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
    for (double& cost : costs) cost /= sum;  // as the partitioner does
    const std::vector<int> part = cut_chain(costs, parts);
    Cut begins;
    for (std::size_t unit = 0; unit < part.size(); ++unit)
      if (unit == 0 || part[unit] != part[unit - 1]) begins.push_back(unit);
    begins.push_back(part.size());
    return begins;
  });
}

const std::vector<std::vector<InFlight>>& BoundMaker::fullest(const Candidate& candidate) {
  int batches = micro_batches(candidate);
  const int bound = base_.parallelism.active_microbatches;
  if (!schedule_info(candidate.schedule).forwards_all)
    batches = std::min(batches, steady_micro_batches_per_stage * candidate.pipeline);
  const std::tuple key{candidate.schedule, candidate.pipeline, candidate.virtual_stages, batches};
  return measured_->fullest.get(key, [&] {
    const PipelineShape shape{candidate.pipeline, candidate.virtual_stages, batches, bound};
    std::vector<std::vector<InFlight>> times;
    for (int stage = 0; stage < candidate.pipeline; ++stage)
      times.push_back(fullest_times(schedule_info(candidate.schedule).order(shape, stage),
                                    candidate.virtual_stages));
    return times;
  });
}

// Of the partition that the costs give, slot by slot. Of a chunk without blocks what it keeps and
// works in is known beside a block: at least nothing.
MemoryBounds BoundMaker::stage_memory(const Candidate& candidate) {
  const bool mixed = is_mixed(candidate);
  const StageProfile& parts = mixed ? profiles_.stages(keeping(candidate), Recompute::none)
                                    : profiles_.stages(candidate, candidate.recompute);
  // Working space of blocks that keep and that repeat.
  const StageProfile& repeats = profiles_.stages(candidate, candidate.recompute);
  const auto kept_block = static_cast<double>(parts.middle_block_kept);
  // What weights' gradients need is kept longer where an earlier stage waits for the rest: in one
  // block of a stage, whose others are through by then.
  const double block_kept = std::min(
      kept_block, static_cast<double>((mixed ? profiles_.kept(keeping(candidate), Recompute::none)
                                             : profiles_.kept(candidate, candidate.recompute))
                                          .block));
  const double repeated_block =
      mixed
          ? static_cast<double>(profiles_.stages(candidate, candidate.recompute).middle_block_kept)
          : kept_block;
  const Cut& begins = partition(candidate);
  const std::vector<std::vector<InFlight>>& times = fullest(candidate);
  const Chain& sums = chain(work(candidate), false);
  const double per_parameter = bytes_per_parameter(candidate);
  const int before = parts.units_before;
  const StageLayout layout = candidate.stage_layout();
  MemoryBounds most;
  std::vector<double> slots, likely_slots;  // of a stage's chunks: what a micro-batch keeps
  for (int stage = 0; stage < candidate.pipeline; ++stage) {
    double bytes = 0, task = 0, likely_task = 0;
    slots.clear(), likely_slots.clear();
    int blocks = 0;  // of the chunk that has most: each begins with the first unit buffer
    for (int chunk = 0; chunk < candidate.virtual_stages; ++chunk) {
      const auto part = static_cast<std::size_t>(layout.virtual_stage(stage, chunk));
      const std::size_t begin = begins[part], end = begins[part + 1];
      const bool is_first = begin == 0, is_last = part + 2 == begins.size();
      const StageBytes& own = is_first ? parts.first : is_last ? parts.last : parts.middle;
      const StageBytes& own_repeats = is_first  ? repeats.first
                                      : is_last ? repeats.last
                                                : repeats.middle;
      double kept = static_cast<double>(own.kept) - block_kept, kept_at_least = 0;
      const int first_block = std::max(0, static_cast<int>(begin) - before);
      const int end_block = std::min(model_.layers, static_cast<int>(end) - before);
      blocks = std::max(blocks, end_block - first_block);
      if (!is_first && end_block - first_block > 1) kept += kept_block - block_kept;
      for (int block = first_block; block < end_block; ++block) {
        const bool again = mixed && is_repeated(block, candidate.recompute_fraction);
        kept += again ? repeated_block : block_kept;
        kept_at_least += again ? 0 : block_kept;
      }
      bytes += per_parameter * (sums.parameters[end] - sums.parameters[begin]);
      const auto task_of = [&](const StageBytes& bytes_of) {
        return static_cast<double>(works_by_units(candidate) ? bytes_of.largest_task
                                                             : bytes_of.task);
      };
      const double own_task = std::min(task_of(own), task_of(own_repeats));
      const bool has_blocks = first_block < end_block;
      likely_slots.push_back(std::max(0.0, kept));
      slots.push_back(mixed ? kept_at_least : has_blocks ? likely_slots.back() : 0);
      likely_task = std::max(likely_task, own_task);
      if (has_blocks) task = std::max(task, own_task);
    }
    const auto& time = times[static_cast<std::size_t>(stage)];
    bytes += unit_buffer_bytes(candidate, blocks) * work(candidate).block_parameters;
    most.least_bytes = std::max(most.least_bytes, bytes + bytes_of_slots(time, slots) + task);
    most.likely_bytes =
        std::max(most.likely_bytes, bytes + bytes_of_slots(time, likely_slots) + likely_task);
  }
  return {fixed_bytes() + most.least_bytes, fixed_bytes() + most.likely_bytes};
}

BoundMaker::Kept BoundMaker::kept_bytes(const Candidate& candidate) {
  if (is_mixed(candidate)) {
    const int again = repeated_blocks(model_.layers, candidate.recompute_fraction);
    const KeptBytes& kept = profiles_.kept(keeping(candidate), Recompute::none);
    return {(model_.layers - again) * static_cast<double>(kept.block), 0};
  }
  if (candidate.offload != Offload::none) return {};
  const KeptBytes& kept = profiles_.kept(candidate, candidate.recompute);
  return {model_.layers * static_cast<double>(kept.block), static_cast<double>(kept.other)};
}

}  // namespace meshwright
