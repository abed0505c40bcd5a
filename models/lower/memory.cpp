// Buffers of a stage and their places in its arena.
#include <algorithm>
#include <string>

#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

std::int64_t one_after_another(const std::vector<Buffer*>& buffers) {
  std::int64_t end = 0;
  for (Buffer* each : buffers) {
    each->offset = end;
    end += aligned(each->bytes);
  }
  return end;
}

TensorType flat(std::int64_t elements, Dtype dtype) { return {Shape{elements}, dtype}; }

// The compute instruction of this body by which instruction i has ended, -1: none.
int joined_at(const std::vector<Instruction>& body, int i) {
  const Stream stream = body[static_cast<std::size_t>(i)].stream;
  if (stream == Stream::compute) return i;
  for (int k = i + 1; k < static_cast<int>(body.size()); ++k) {
    const Instruction& by = body[static_cast<std::size_t>(k)];
    if (by.stream != Stream::compute || by.when != When::always) continue;
    for (const Wait& wait : by.waits)
      if (wait.relation == Wait::Relation::same_task && wait.instruction >= i &&
          body[static_cast<std::size_t>(wait.instruction)].stream == stream)
        return k;
  }
  return -1;
}

}  // namespace

int StageLowering::add_buffer(std::string_view name, MemoryClass cls, Region region,
                              std::int64_t bytes, int chunk) {
  Buffer added;
  added.name = name;
  added.cls = cls;
  added.region = region;
  added.bytes = bytes;
  added.chunk = chunk;
  if (region == Region::slot) added.last = slot_always;
  program_.memory.buffers.push_back(std::move(added));
  return static_cast<int>(program_.memory.buffers.size()) - 1;
}

void StageLowering::place_bucket(BucketPlan& planned) {
  const Dtype storage = storage_of(plan_.training.precision);
  const Dtype sums = plan_.training.gradient_reduce;
  Bucket& bucket = planned.bucket;
  const std::int64_t own = bucket.shard_elements;
  const auto place = [&](std::string_view name, MemoryClass cls, const TensorType& type) {
    const bool states = cls == MemoryClass::optimizer || cls == MemoryClass::snapshot;
    const bool owned = states && !bucket.owner.everybody();
    const bool on_host = cls == MemoryClass::snapshot && plan_.snapshot_on_host;
    const Region region = on_host ? Region::host : owned ? Region::owned : Region::persistent;
    const int id = add_buffer(name, cls, region, type.bytes());
    if (owned) buffer(id).owner = bucket.owner;
    return Operand{id, 0, type, GroupKind::none};
  };
  const auto own_part = [&](const Operand& whole, bool only_own) {
    Operand part = whole;
    part.type = flat(own, whole.type.dtype);
    if (bucket.sharded && !only_own) part.part_of = bucket.shard();
    return part;
  };
  const bool weights_cut = planned.zero == 3, gradients_cut = planned.zero >= 2;
  bucket.weights =
      place("weights", MemoryClass::parameters, flat(weights_cut ? own : bucket.elements, storage));
  bucket.gradients =
      place("gradients", MemoryClass::gradients, flat(gradients_cut ? own : bucket.elements, sums));
  bucket.own_weights = own_part(bucket.weights, weights_cut);
  bucket.own_gradients = own_part(bucket.gradients, gradients_cut);
  bucket.master = storage == Dtype::f32
                      ? bucket.own_weights
                      : place("master", MemoryClass::optimizer, flat(own, Dtype::f32));
  bucket.first_moment = place("first_moment", MemoryClass::optimizer, flat(own, Dtype::f32));
  if (plan_.training.optimizer != OptimizerKind::sgd)
    bucket.second_moment = place("second_moment", MemoryClass::optimizer, flat(own, Dtype::f32));
  const std::int64_t slice = plan_.snapshot ? snapshot_slice(bucket) : 0;
  if (slice > 0)
    bucket.snapshot =
        place("snapshot", MemoryClass::snapshot, flat(slice * bucket.states(), Dtype::f32));
}

void StageLowering::place_buckets() {
  for (BucketPlan& planned : buckets_) place_bucket(planned);
  program_.norm_buffer = add_buffer("squared_norm", MemoryClass::workspace, Region::persistent, 8);
  program_.loss_buffer = add_buffer("loss_sum", MemoryClass::workspace, Region::persistent, 8);
  if (plan_.training.scales_loss()) {
    program_.loss_scale_buffer =
        add_buffer("loss_scale", MemoryClass::workspace, Region::persistent, 4);
    program_.loss_scale_state_buffer =
        add_buffer("loss_scale_state", MemoryClass::workspace, Region::persistent,
                   std::int64_t{8} * Program::loss_scale_state);
  }
  if (plan_.training.optimizer == OptimizerKind::lamb)
    program_.parameter_norms_buffer =
        add_buffer("parameter_norms", MemoryClass::optimizer, Region::persistent,
                   static_cast<std::int64_t>(16 * program_.parameters.size()));
}

int StageLowering::replicas_of(const Bucket& bucket) const {
  const int ranks = bucket.of_experts ? degrees_.expert_rdp() : degrees_.rdp();
  const int shards = bucket.of_experts ? degrees_.expert_shard() : degrees_.shard;
  return bucket.sharded ? ranks / shards : ranks;
}

// Elements of the own part that one rank saves: a share of it among the ranks that have the same;
// 0 where all of the bucket is saved by another stage.
std::int64_t StageLowering::snapshot_slice(const Bucket& bucket) const {
  const auto& parameters = program_.parameters;
  if (std::all_of(bucket.parameters.begin(), bucket.parameters.end(), [&](int index) {
        return parameters[static_cast<std::size_t>(index)].copy_of_tied;
      }))
    return 0;
  if (!bucket.owner.everybody()) return bucket.shard_elements;
  const std::int64_t replicas = replicas_of(bucket);
  return (bucket.shard_elements + replicas - 1) / replicas;
}

// Those that units use in turn, and one for what units share; each grows to the largest that it
// holds.
void StageLowering::place_unit_buffers() {
  const bool any_shared = unit_elements(shared_unit) > 0;
  const auto place = [&](std::string_view name, int count) {
    const auto add = [&] {
      return add_buffer(name, MemoryClass::communication, Region::persistent, 0);
    };
    std::vector<int> in_turn;
    for (int i = 0; i < count; ++i) in_turn.push_back(add());
    return UnitBuffers(graph_.units.size(), std::move(in_turn), any_shared ? add() : -1);
  };
  if (zero_stage_ == 3) gathered_ = place("gathered_weights", gather_buffers());
  unit_gradients_ = place("unit_gradients", 2);
}

// Where those of `buffers` end that each rank [rdp][tensor] has. They lie in one piece: first what
// everybody has, then what a tensor group owns alike, then what one rank alone owns.
std::vector<std::vector<std::int64_t>> StageLowering::lay_out_by_owner(
    const std::vector<Buffer*>& buffers) const {
  std::vector<std::vector<std::int64_t>> ends(
      static_cast<std::size_t>(degrees_.rdp()),
      std::vector<std::int64_t>(static_cast<std::size_t>(degrees_.tensor), 0));
  const auto rank_of_order = [](const Owner& owner) {
    return owner.everybody() ? 0 : owner.tensor < 0 ? 1 : 2;
  };
  for (const int now : {0, 1, 2})
    for (Buffer* each : buffers) {
      const Owner& owner = each->owner;
      if (rank_of_order(owner) != now) continue;
      each->offset = ends[static_cast<std::size_t>(std::max(0, owner.rdp))]
                         [static_cast<std::size_t>(std::max(0, owner.tensor))];
      for (int rdp = 0; rdp < degrees_.rdp(); ++rdp)
        for (int tensor = 0; tensor < degrees_.tensor; ++tensor)
          if (owner.includes({rdp, tensor}))
            ends[static_cast<std::size_t>(rdp)][static_cast<std::size_t>(tensor)] +=
                aligned(each->bytes);
    }
  return ends;
}

// What a rank owns lies behind all else.
void StageLowering::lay_out_owned() {
  MemoryPlan& memory = program_.memory;
  std::vector<Buffer*> owned, snapshots;
  for (Buffer& each : memory.buffers) {
    if (each.region == Region::owned) owned.push_back(&each);
    if (each.region == Region::host && each.chunk < 0) snapshots.push_back(&each);
  }
  for (const std::vector<std::int64_t>& of_group : lay_out_by_owner(snapshots))
    for (const std::int64_t end : of_group)
      memory.snapshot_bytes = std::max(memory.snapshot_bytes, end);
  memory.host_bytes = memory.snapshot_bytes;
  if (owned.empty()) return;
  memory.owned_bytes = lay_out_by_owner(owned);
  std::int64_t most = 0;
  for (std::size_t r = 0; r < memory.owned_bytes.size(); ++r)
    for (std::size_t t = 0; t < memory.owned_bytes[r].size(); ++t)
      if (memory.owned_bytes[r][t] > most) {
        most = memory.owned_bytes[r][t];
        program_.fullest = {static_cast<int>(r), static_cast<int>(t)};
      }
}

// Where backwards are split, much of a slot is needed by the first half only, and what the first
// half makes for the second may take its place. Rules as for task buffers (body_builder.h): what
// another stream uses is live until a compute instruction has waited for it; what a message comes
// from or goes to, always.
void StageLowering::find_slot_lifetimes() {
  if (!splits_) return;
  for (int chunk = 0; chunk < plan_.parallelism.virtual_stages; ++chunk) {
    std::vector<char> seen(program_.memory.buffers.size(), 0);
    const auto touch = [&](const Operand& operand, int first, int last) {
      Buffer& used = buffer(operand.buffer);
      if (used.region != Region::slot || used.chunk != chunk) return;
      char& known = seen[static_cast<std::size_t>(operand.buffer)];
      used.first = known ? std::min(used.first, first) : first;
      used.last = known ? std::max(used.last, last) : last;
      known = 1;
    };
    for (int b = forward_body(chunk); b <= last_body(chunk); ++b) {
      const auto& instructions = program_.bodies[static_cast<std::size_t>(b)].instructions;
      for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
        const Instruction& user = instructions[static_cast<std::size_t>(i)];
        const bool forward = b == forward_body(chunk);
        const bool message = user.stream == Stream::pipe_send || user.stream == Stream::pipe_recv;
        const int place = b - backward_body(chunk);
        const int first = forward || message ? 0 : slot_time(place, i);
        const int joined = message ? -1 : joined_at(instructions, i);
        const int last = joined < 0 ? slot_always : forward ? first : slot_time(place, joined);
        for (const Operand& operand : user.inputs) touch(operand, first, last);
        for (const Operand& operand : user.outputs) touch(operand, first, last);
      }
    }
  }
}

void StageLowering::lay_out_memory() {
  find_slot_lifetimes();
  lay_out_owned();
  MemoryPlan& memory = program_.memory;
  const auto chunks = static_cast<std::size_t>(plan_.parallelism.virtual_stages);
  std::int64_t persistent = 0;
  std::vector<std::vector<Buffer*>> of_body(program_.bodies.size()), of_slot(chunks),
      of_window(chunks), of_host(chunks);
  const auto bytes_of_class = [&](MemoryClass cls) -> std::int64_t& {
    return memory.class_bytes[static_cast<std::size_t>(cls)];
  };
  for (Buffer& each : memory.buffers) {
    if (each.region == Region::persistent) {
      each.offset = persistent;
      persistent += aligned(each.bytes);
      bytes_of_class(each.cls) += aligned(each.bytes);
    } else if (each.region == Region::slot) {
      of_slot[static_cast<std::size_t>(each.chunk)].push_back(&each);
    } else if (each.region == Region::window) {
      of_window[static_cast<std::size_t>(each.chunk)].push_back(&each);
    } else if (each.region == Region::host && each.chunk >= 0) {
      of_host[static_cast<std::size_t>(each.chunk)].push_back(&each);
    } else if (each.region == Region::owned) {
      if (each.owner.includes(program_.fullest)) bytes_of_class(each.cls) += aligned(each.bytes);
    } else if (each.body >= 0) {
      of_body[static_cast<std::size_t>(each.body)].push_back(&each);
    }
  }
  memory.persistent_bytes = persistent;
  std::int64_t end = persistent;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const auto lay_out = [&](SlotRegion& region, std::vector<Buffer*>& buffers, std::int64_t from) {
      region.offset = from;
      region.stride =
          splits_ && &buffers == &of_slot[chunk] ? pack(buffers) : one_after_another(buffers);
      return from + region.stride * region.slots;
    };
    const std::int64_t begin = end;
    end = lay_out(memory.slots[chunk], of_slot[chunk], end);
    end = lay_out(memory.windows[chunk], of_window[chunk], end);
    bytes_of_class(MemoryClass::activations) += end - begin;
    memory.host_bytes = lay_out(memory.host[chunk], of_host[chunk], memory.host_bytes);
  }
  memory.task_offset = end;
  for (auto& buffers : of_body) memory.task_bytes = std::max(memory.task_bytes, pack(buffers));
  bytes_of_class(MemoryClass::workspace) += memory.task_bytes;
  memory.owned_offset = end + memory.task_bytes;
  memory.arena_bytes = memory.owned_offset;
  memory.arena_bytes = memory.arena_bytes_of(program_.fullest.rdp, program_.fullest.tensor);
}

}  // namespace meshwright
