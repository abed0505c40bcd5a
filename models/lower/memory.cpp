// Buffers of a stage and their places in its arena.
#include <algorithm>
#include <string>

#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

TensorType flat(std::int64_t elements, Dtype dtype) { return {Shape{elements}, dtype}; }

}  // namespace

int StageLowering::add_buffer(std::string_view name, MemoryClass cls, Region region,
                              std::int64_t bytes, int chunk) {
  Buffer added;
  added.name = name;
  added.cls = cls;
  added.region = region;
  added.bytes = bytes;
  added.chunk = chunk;
  program_.memory.buffers.push_back(std::move(added));
  return static_cast<int>(program_.memory.buffers.size()) - 1;
}

void StageLowering::place_buckets() {
  const Dtype storage = storage_of(plan_.training.precision);
  const Dtype sums = plan_.training.gradient_reduce;
  const int moments = plan_.training.optimizer == OptimizerKind::sgd ? 1 : 2;
  const auto place = [&](std::string_view name, MemoryClass cls, const TensorType& type) {
    return Operand{add_buffer(name, cls, Region::persistent, type.bytes()), 0, type,
                   GroupKind::none};
  };
  for (BucketPlan& planned : buckets_) {
    Bucket& bucket = planned.bucket;
    const std::int64_t own = bucket.shard_elements;
    const auto own_part = [&](const Operand& whole, bool only_own) {
      Operand part = whole;
      part.type = flat(own, whole.type.dtype);
      if (bucket.sharded && !only_own) part.part_of = GroupKind::shard;
      return part;
    };
    bucket.weights = place("weights", MemoryClass::parameters,
                           flat(zero_stage_ == 3 ? own : bucket.elements, storage));
    bucket.gradients = place("gradients", MemoryClass::gradients,
                             flat(zero_stage_ >= 2 ? own : bucket.elements, sums));
    bucket.own_weights = own_part(bucket.weights, zero_stage_ == 3);
    bucket.own_gradients = own_part(bucket.gradients, zero_stage_ >= 2);
    bucket.master = storage == Dtype::f32
                        ? bucket.own_weights
                        : place("master", MemoryClass::optimizer, flat(own, Dtype::f32));
    bucket.first_moment = place("first_moment", MemoryClass::optimizer, flat(own, Dtype::f32));
    if (moments == 2)
      bucket.second_moment = place("second_moment", MemoryClass::optimizer, flat(own, Dtype::f32));
    const std::int64_t slice = plan_.snapshot ? snapshot_slice(bucket) : 0;
    if (slice > 0)
      bucket.snapshot =
          place("snapshot", MemoryClass::snapshot, flat(slice * bucket.states(), Dtype::f32));
  }
  program_.norm_buffer = add_buffer("squared_norm", MemoryClass::workspace, Region::persistent, 8);
  program_.loss_buffer = add_buffer("loss_sum", MemoryClass::workspace, Region::persistent, 8);
}

// Elements of the own part that one rank saves: a share of it among the ranks that have the same;
// 0 where all of the bucket is saved by another stage.
std::int64_t StageLowering::snapshot_slice(const Bucket& bucket) const {
  const auto& parameters = program_.parameters;
  if (std::all_of(bucket.parameters.begin(), bucket.parameters.end(), [&](int index) {
        return parameters[static_cast<std::size_t>(index)].copy_of_tied;
      }))
    return 0;
  const std::int64_t replicas = bucket.sharded ? degrees_.rdp() / degrees_.shard : degrees_.rdp();
  return (bucket.shard_elements + replicas - 1) / replicas;
}

// Two buffers that units use in turn and one for what units share; each grows to the largest that
// it holds.
void StageLowering::place_gather_buffers() {
  for (int slot = 0; slot < 3; ++slot) {
    if (slot == shared_slot && unit_elements(shared_unit) == 0) continue;
    const auto place = [&](std::string_view name) {
      return add_buffer(name, MemoryClass::communication, Region::persistent, 0);
    };
    if (zero_stage_ == 3) gather_buffer_[slot] = place("gathered_weights");
    gradient_buffer_[slot] = place("unit_gradients");
  }
}

void StageLowering::lay_out_memory() {
  MemoryPlan& memory = program_.memory;
  const auto chunks = static_cast<std::size_t>(plan_.parallelism.virtual_stages);
  std::int64_t persistent = 0;
  std::vector<std::int64_t> stride(chunks, 0);
  std::vector<std::vector<Buffer*>> of_body(program_.bodies.size());
  const auto add_class = [&](const Buffer& added, std::int64_t copies) {
    memory.class_bytes[static_cast<std::size_t>(added.cls)] += aligned(added.bytes) * copies;
  };
  for (Buffer& each : memory.buffers) {
    if (each.region == Region::persistent) {
      each.offset = persistent;
      persistent += aligned(each.bytes);
      add_class(each, 1);
    } else if (each.region == Region::slot) {
      std::int64_t& end = stride[static_cast<std::size_t>(each.chunk)];
      each.offset = end;
      end += aligned(each.bytes);
      add_class(each, memory.slots[static_cast<std::size_t>(each.chunk)].slots);
    } else if (each.body >= 0) {
      of_body[static_cast<std::size_t>(each.body)].push_back(&each);
    }
  }
  memory.persistent_bytes = persistent;
  std::int64_t end = persistent;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    memory.slots[chunk].offset = end;
    memory.slots[chunk].stride = stride[chunk];
    end += stride[chunk] * memory.slots[chunk].slots;
  }
  memory.task_offset = end;
  for (auto& buffers : of_body) memory.task_bytes = std::max(memory.task_bytes, pack(buffers));
  memory.class_bytes[static_cast<std::size_t>(MemoryClass::workspace)] += memory.task_bytes;
  memory.arena_bytes = end + memory.task_bytes;
}

}  // namespace meshwright
