// The part of BoundMaker that bounds memory, and finds the partition if it can be known.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/compiler/lower/bucket_buffers.h"
#include "models/compiler/lower/sharded_units.h"
#include "models/compiler/partition/partition.h"
#include "models/compiler/schedule/schedule.h"
#include "models/compiler/schedule/slot_pools.h"
#include "sim/planner/bounds.h"
#include "sim/planner/mixed_recompute.h"
#include "sim/predict/predict.h"
#include "sim/predict/pytorch_memory.h"

namespace meshwright::sim {

namespace {

// Factor on the least bytes of a stage of a known partition, because more blocks may be packed a
// little closer than the three blocks that are measured.
constexpr double packing_allowance = 0.98;
// With this many micro-batches per stage or more, most schedules have as many in flight as with any
// larger number.
constexpr int steady_micro_batches_per_stage = 4;

// Return the bytes of the blocks of a candidate. If it recomputes only a share of its blocks, these
// are the bytes of the blocks that are not recomputed.
const KeptBytes& kept_of(Profiles& profiles, const Candidate& candidate) {
  return is_mixed(candidate) ? profiles.kept(keeping(candidate), Recompute::none)
                             : profiles.kept(candidate, candidate.recompute);
}
const StageProfile& stages_of(Profiles& profiles, const Candidate& candidate) {
  return is_mixed(candidate) ? profiles.stages(keeping(candidate), Recompute::none)
                             : profiles.stages(candidate, candidate.recompute);
}

// Bytes that a block of one kind saves for one micro-batch on a stage in the middle.
struct KeptOfBlock {
  // If backwards are split, the inputs of weight gradients are saved longer while an earlier stage
  // waits for the rest of the backward. This holds for one block of a stage at a time, which saves
  // `waited_for`, because the others are done by then.
  double block = 0, waited_for = 0;
  double repeated = 0;  // of a block that is recomputed, in a mixed plan
};

KeptOfBlock kept_of_block(Profiles& profiles, const Candidate& candidate) {
  KeptOfBlock kept;
  kept.waited_for = static_cast<double>(stages_of(profiles, candidate).middle_block_kept);
  kept.block = std::min(kept.waited_for, static_cast<double>(kept_of(profiles, candidate).block));
  kept.repeated =
      is_mixed(candidate)
          ? static_cast<double>(profiles.stages(candidate, candidate.recompute).middle_block_kept)
          : kept.waited_for;
  return kept;
}

}  // namespace

bool BoundMaker::works_by_units(const Candidate& candidate) const {
  return candidate.zero_stage == 3 || reduces_each(candidate);
}

ParameterBytes BoundMaker::bytes_per_parameter(const Candidate& candidate, Counted counted) const {
  const auto each = [&](bool of_experts) {
    return bytes_of_each(candidate, sharers(candidate, of_experts).shards, counted);
  };
  return {each(false), each(true)};
}

bool BoundMaker::drops_gradients(const Candidate& candidate, int micro_batches) const {
  const bool has_ddp_buffers = candidate.zero_stage < 3 && candidate.replicas() > 1;
  return makes_gradients_anew(base_.training, candidate.pipeline, micro_batches, has_ddp_buffers);
}

// Returns the least bytes per parameter on a rank if `shards` ranks share one copy. They are those
// of a bucket of the parameters that need least, as lowering places it, with what training
// frameworks hold in addition or less.
double BoundMaker::bytes_of_each(const Candidate& candidate, int shards, Counted counted) const {
  const Training& t = base_.training;
  BucketPlan planned;
  planned.zero = shards > 1 ? candidate.zero_stage : 0;
  planned.reduced_each = reduces_each(candidate);
  Bucket& bucket = planned.bucket;
  planned.storage = least_storage(t);
  bucket.shard_elements = std::max(moment_block, dtype_block(planned.storage).elements);
  bucket.elements = shards * bucket.shard_elements;
  bucket.sharded = shards > 1;
  bucket.frozen = t.lora.has_value();             // adapters may be arbitrarily small
  bucket.factored = moments_of(t.optimizer) < 2;  // some parameters have no second moments
  std::int64_t bytes = 0;
  for (const BucketPart& part : parts_of(planned, t)) {
    (bucket.*part.operand).type = part.type;
    const bool counts = counted == Counted::all || part.cls != MemoryClass::gradients;
    if (counts && (part.cls != MemoryClass::optimizer || candidate.offload != Offload::optimizer))
      bytes += part.type.bytes();
  }
  const std::int64_t weights = bucket.weights.type.bytes();
  const FrameworkBytes own = framework_bytes(bucket, t, cluster_.machine);
  bytes += own.second_gradients + own.own_gradients - own.shards_left_out;
  if (planned.zero < 3 && keeps_8_bits_alone(t, cluster_.machine))
    bytes += bucket.elements - weights;
  if (planned.zero == 3 && candidate.keeps_gathered && !bucket.frozen) {
    bytes += static_cast<std::int64_t>(gathered_bytes(t)) * bucket.elements;
    // Parameters below the persistence threshold are stored whole, and may then have no shards in
    // addition.
    if (base_.parallelism.persistence_threshold > 0) bytes -= weights - own.shards_left_out;
  }
  return static_cast<double>(bytes) / static_cast<double>(bucket.elements);
}

// Returns the bytes per parameter of the buffers for gathered weights and reduced gradients, which
// units use round-robin. Only buffers that blocks surely use count.
ParameterBytes BoundMaker::unit_buffer_bytes(const Candidate& candidate, int blocks) const {
  const Parallelism& p = base_.parallelism;
  const bool gathers = candidate.zero_stage == 3 && !candidate.keeps_gathered;
  const bool reduces = reduces_each(candidate) && !base_.training.lora;
  if (candidate.replicas() == 1 || p.persistence_threshold > 0) return {};
  if (candidate.zero_stage == 0 && candidate.degrees().has_expert_groups()) return {};
  const double weight = gathered_bytes(base_.training);
  const auto gradient = static_cast<double>(bytes_of(base_.training.gradient_reduce));
  const double bytes = (gathers ? weight * std::min(blocks, least_gather_buffers(p)) : 0) +
                       (reduces ? gradient * std::min(blocks, backward_buffers) : 0);
  return {bytes, sharers(candidate, true).ranks > 1 ? bytes : 0};
}

double BoundMaker::fixed_bytes() const { return library_bytes(cluster_); }

int BoundMaker::in_flight(const Candidate& candidate, int stage) const {
  return schedule_info(candidate.schedule).in_flight(pipeline_shape(candidate), stage);
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

// Returns the bytes that the blocks save for one micro-batch. The recomputed blocks of a mixed plan
// count with 0 bytes, their lower bound, or if `likely` with their measured bytes.
double BoundMaker::kept_by_blocks(const Candidate& candidate, bool likely) {
  const bool mixed = is_mixed(candidate);
  double bytes = 0;
  for (std::size_t kind = 0; kind < measured_->profiles->kinds().size(); ++kind) {
    int kept = 0, again = 0;
    for (int block = 0; block < model_.layers; ++block)
      if (kind_of(block) == kind)
        ++(mixed && is_repeated(block, candidate.recompute_fraction) ? again : kept);
    Profiles& profiles = *measured_->profiles->kinds()[kind];
    bytes += kept * static_cast<double>(kept_of(profiles, candidate).block);
    if (likely && mixed)
      bytes += again * static_cast<double>(profiles.kept(candidate, candidate.recompute).block);
  }
  return bytes;
}

// Returns the bytes that a stage needs in addition to its blocks, the least for any kind of blocks.
// `block` is that of the first kind.
KeptBytes BoundMaker::kept_beside_blocks(const Candidate& candidate) {
  KeptBytes kept = kept_of(profiles_, candidate);
  for (const auto& profiles : measured_->profiles->kinds()) {
    const KeptBytes& other = kept_of(*profiles, candidate);
    kept.other = std::min(kept.other, other.other);
    kept.task = std::min(kept.task, other.task);
    kept.largest_task = std::min(kept.largest_task, other.largest_task);
  }
  return kept;
}

double BoundMaker::single_stage_memory(const Candidate& candidate, bool likely) {
  const KeptBytes kept = kept_beside_blocks(candidate);
  const bool mixed = is_mixed(candidate);
  double bytes = kept_by_blocks(candidate, likely);
  if (likely || !mixed) bytes += static_cast<double>(kept.other);
  // If weights are gathered or gradients reduced unit by unit, the compute stream waits more often,
  // so buffers live shorter. Then the lower bound counts only the largest buffer of a task.
  const bool waits = !likely && works_by_units(candidate);
  const auto task = static_cast<double>(waits ? kept.largest_task : kept.task);
  const double states = bytes_per_parameter(candidate).of(work(candidate).parameters);
  const double units =
      unit_buffer_bytes(candidate, model_.layers).of(work(candidate).block_parameters);
  if (drops_gradients(candidate, micro_batches(candidate))) {
    // The forward ends without gradients, and the backward with all of them but without anything
    // that is saved. A task's buffers are there at neither end for sure.
    const double others =
        bytes_per_parameter(candidate, Counted::no_gradients).of(work(candidate).parameters);
    return fixed_bytes() + std::max(states, others + units + bytes + (likely ? task : 0));
  }
  return fixed_bytes() + states + units + in_flight(candidate, 0) * bytes +
         (likely || !mixed ? task : 0);
}

double BoundMaker::any_partition_memory(const Candidate& candidate) {
  // The blocks of encoder and decoder differ, and so do the units of a fixed model. Their memory is
  // left to the exact plan.
  if (model_.has_decoder() || model_.is_fixed()) return fixed_bytes();
  const bool differ = is_mixed(candidate) || has_kinds();
  const double kept =
      differ ? 0 : static_cast<double>(profiles_.kept(candidate, candidate.recompute).block);
  const double states = bytes_per_parameter(candidate).of(work(candidate).block_parameters);
  double shares = 0, turns = 0;
  for (int stage = 0; stage < candidate.pipeline; ++stage) {
    const double batches = in_flight(candidate, stage);
    shares += 1 / (states + batches * kept);
    turns += 1 / batches;
  }
  const double all_states = model_.layers * states / in_flight(candidate, 0);
  return fixed_bytes() +
         std::max(model_.layers / shares,
                  differ ? (all_states + kept_by_blocks(candidate, false)) / turns : 0);
}

// Returns whether the partition is known: the chain must be cut by the costs of its units only, and
// Work must have these units.
bool BoundMaker::knows_partition(const Candidate& candidate) const {
  const Parallelism& p = base_.parallelism;
  return candidate.pipeline > 1 && !model_.has_decoder() && !model_.is_fixed() &&
         !model_.shares_layers() && model_.layers >= 3 && p.partitioner == Partitioner::chain &&
         p.memory_weight == 0 && !base_.training.recompute_budget &&
         base_.training.recompute_modules.empty() &&
         (candidate.recompute == Recompute::none || candidate.recompute == Recompute::selective ||
          candidate.recompute == Recompute::full);
}

// Returns the cut of the chain by the costs of its units, which are measured on a smaller model
// (Profiles::costs()).
const BoundMaker::Cut& BoundMaker::partition(const Candidate& candidate) {
  const std::vector<double>& of_units = profiles_.costs(candidate);
  const int parts = candidate.pipeline * candidate.virtual_stages;
  return measured_->partitions.get({&of_units, parts}, [&] {
    std::vector<double> costs = of_units;
    // The blocks of multi-token prediction stay on one stage with the head, which is the last unit.
    for (int i = 0; i < base_.training.mtp_layers; ++i) {
      const double ahead = costs.back();
      costs.pop_back();
      costs.back() += ahead;
    }
    const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
    for (double& cost : costs) cost /= sum;  // the partitioner normalizes costs in the same way
    const std::vector<int> part = cut_chain(costs, parts);
    Cut begins;
    for (std::size_t unit = 0; unit < part.size(); ++unit)
      if (unit == 0 || part[unit] != part[unit - 1]) begins.push_back(unit);
    begins.push_back(of_units.size());
    return begins;
  });
}

const std::vector<std::vector<InFlight>>& BoundMaker::fullest(const Candidate& candidate) {
  const ScheduleInfo& schedule = schedule_info(candidate.schedule);
  PipelineShape shape = pipeline_shape(candidate), steady = shape;
  steady.micro_batches =
      std::min(shape.micro_batches, steady_micro_batches_per_stage * candidate.pipeline);
  if (schedule.in_flight(steady, 0) == schedule.in_flight(shape, 0)) shape = steady;
  const std::tuple key{candidate.schedule, shape.stages, shape.chunks, shape.micro_batches};
  return measured_->fullest.get(key, [&] {
    std::vector<std::vector<InFlight>> times;
    for (int stage = 0; stage < candidate.pipeline; ++stage)
      times.push_back(fullest_times(schedule.order(shape, stage), shape.chunks));
    return times;
  });
}

// Returns the bytes of a stage's slots for saved activations. They are cached, because many
// candidates have equal chunks, for example those that differ only in how states are sharded.
double BoundMaker::shared_slot_bytes(const std::vector<InFlight>& time,
                                     const std::vector<double>& each) {
  constexpr std::size_t most_kept = 10'000;
  if (slot_bytes_.size() >= most_kept) slot_bytes_.clear();
  const auto [found, is_new] = slot_bytes_.try_emplace({&time, each});
  if (is_new) found->second = bytes_of_slots(time, each);
  return found->second;
}

// Returns the bounds for the known partition, slot by slot. The bytes of a chunk without blocks are
// only measured together with a block, so its lower bound is 0.
MemoryBounds BoundMaker::stage_memory(const Candidate& candidate) {
  const bool mixed = is_mixed(candidate);
  const StageProfile& parts = stages_of(profiles_, candidate);
  // Working space for each kind of blocks, with blocks that save their activations and with blocks
  // that recompute.
  std::vector<const StageProfile*> spaces;
  std::vector<KeptOfBlock> kept_blocks;
  // The least additional bytes, over all kinds, of the block whose inputs are saved longer.
  double waited_for = std::numeric_limits<double>::infinity();
  for (const auto& profiles : measured_->profiles->kinds()) {
    spaces.push_back(&stages_of(*profiles, candidate));
    spaces.push_back(&profiles->stages(candidate, candidate.recompute));
    kept_blocks.push_back(kept_of_block(*profiles, candidate));
    waited_for = std::min(waited_for, kept_blocks.back().waited_for - kept_blocks.back().block);
  }
  const Cut& begins = partition(candidate);
  const std::vector<std::vector<InFlight>>& times = fullest(candidate);
  const Chain& sums = chain(work(candidate), false);
  const ParameterBytes per_parameter = bytes_per_parameter(candidate);
  const int before = parts.units_before;
  const StageLayout layout = candidate.stage_layout();
  MemoryBounds most;
  std::vector<double> slots, likely_slots;  // by chunk of a stage: bytes that a micro-batch saves
  for (int stage = 0; stage < candidate.pipeline; ++stage) {
    double bytes = 0, task = 0, likely_task = 0;
    slots.clear(), likely_slots.clear();
    int blocks = 0;  // of the largest chunk, because all chunks begin with the same unit buffer
    for (int chunk = 0; chunk < candidate.virtual_stages; ++chunk) {
      const auto part = static_cast<std::size_t>(layout.virtual_stage(stage, chunk));
      const std::size_t begin = begins[part], end = begins[part + 1];
      const bool is_first = begin == 0, is_last = part + 2 == begins.size();
      const auto place_of = [&](const StageProfile& of) -> const StageBytes& {
        return is_first ? of.first : is_last ? of.last : of.middle;
      };
      double kept = static_cast<double>(place_of(parts).kept) - kept_blocks.front().block;
      double kept_at_least = 0;
      const int first_block = std::max(0, static_cast<int>(begin) - before);
      const int end_block = std::min(model_.layers, static_cast<int>(end) - before);
      blocks = std::max(blocks, end_block - first_block);
      if (!is_first && end_block - first_block > 1) kept += waited_for;
      for (int block = first_block; block < end_block; ++block) {
        const bool again = mixed && is_repeated(block, candidate.recompute_fraction);
        const KeptOfBlock& of_block = kept_blocks[kind_of(block)];
        kept += again ? of_block.repeated : of_block.block;
        kept_at_least += again ? 0 : of_block.block;
      }
      bytes += per_parameter.of(sums.parameters[end] - sums.parameters[begin]);
      const auto task_of = [&](const StageBytes& bytes_of) {
        return static_cast<double>(works_by_units(candidate) ? bytes_of.largest_task
                                                             : bytes_of.task);
      };
      double own_task = task_of(place_of(parts));
      for (const StageProfile* space : spaces)
        own_task = std::min(own_task, task_of(place_of(*space)));
      const bool has_blocks = first_block < end_block;
      likely_slots.push_back(std::max(0.0, kept));
      slots.push_back(mixed ? kept_at_least : has_blocks ? likely_slots.back() : 0);
      likely_task = std::max(likely_task, own_task);
      if (has_blocks) task = std::max(task, own_task);
    }
    const auto& time = times[stage];
    bytes += unit_buffer_bytes(candidate, blocks).of(work(candidate).block_parameters);
    // It takes long to compute how slots share memory, so this is only done if slots without
    // sharing exceed the largest sum so far.
    const auto grow = [&](double& largest, const std::vector<double>& each, double beside) {
      if (beside + bytes_of_slots_apart(time, each) > largest)
        largest = std::max(largest, beside + shared_slot_bytes(time, each));
    };
    grow(most.least_bytes, slots, bytes + task);
    grow(most.likely_bytes, likely_slots, bytes + likely_task);
  }
  return {fixed_bytes() + most.least_bytes, fixed_bytes() + most.likely_bytes};
}

BoundMaker::Kept BoundMaker::kept_bytes(const Candidate& candidate) {
  if (is_mixed(candidate)) return {kept_by_blocks(candidate, false), 0};
  if (offloaded_activations(candidate) != Offload::none) return {};
  return {kept_by_blocks(candidate, false),
          static_cast<double>(kept_beside_blocks(candidate).other)};
}

}  // namespace meshwright::sim
