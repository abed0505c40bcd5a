#include "models/compiler/lower/memory.h"

#include <algorithm>

#include "models/compiler/lower/draft.h"
#include "models/core/round_up.h"

namespace meshwright::compiler {

namespace {

using Buffers = std::vector<Buffer*>;

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, arena_alignment); }

std::int64_t one_after_another(const Buffers& buffers) {
  std::int64_t end = 0;
  for (Buffer* each : buffers) {
    each->offset = end;
    end += aligned(each->bytes);
  }
  return end;
}

// The buffers of each region, in the order in which they were added.
struct Regions {
  Buffers persistent, owned, snapshots, states;
  std::vector<Buffers> slot, window, host;  // per chunk
  std::vector<Buffers> task;                // per body
};

Regions regions_of(StageDraft& draft) {
  Regions regions;
  regions.slot.resize(draft.chunks());
  regions.window.resize(draft.chunks());
  regions.host.resize(draft.chunks());
  regions.task.resize(draft.program.bodies.size());
  const auto place_of = [&](const Buffer& each) -> Buffers* {
    switch (each.region) {
      case Region::persistent:
        return &regions.persistent;
      case Region::owned:
        return &regions.owned;
      case Region::slot:
        return &regions.slot[each.chunk];
      case Region::window:
        return &regions.window[each.chunk];
      case Region::host:
        if (each.chunk >= 0) return &regions.host[each.chunk];
        return each.cls == MemoryClass::snapshot ? &regions.snapshots : &regions.states;
      case Region::task:
        return each.body < 0 ? nullptr : &regions.task[each.body];
    }
    return nullptr;
  };
  for (Buffer& each : draft.program.memory.buffers)
    if (Buffers* place = place_of(each)) place->push_back(&each);
  return regions;
}

// Lays out `buffers` contiguously and returns, in bytes, where the buffers of each rank
// [rdp][tensor] end. First come the buffers that every rank has, then those that the tensor ranks
// of one replica own, then those that one rank owns.
std::vector<std::vector<std::int64_t>> lay_out_by_owner(const Degrees& degrees,
                                                        const Buffers& buffers) {
  std::vector<std::vector<std::int64_t>> ends(degrees.rdp(),
                                              std::vector<std::int64_t>(degrees.tensor, 0));
  const auto rank_of_order = [](const Owner& owner) {
    return owner.everybody() ? 0 : owner.tensor < 0 ? 1 : 2;
  };
  for (const int now : {0, 1, 2})
    for (Buffer* each : buffers) {
      const Owner& owner = each->owner;
      if (rank_of_order(owner) != now) continue;
      each->offset = ends[std::max(0, owner.rdp)][std::max(0, owner.tensor)];
      for (int rdp = 0; rdp < degrees.rdp(); ++rdp)
        for (int tensor = 0; tensor < degrees.tensor; ++tensor)
          if (owner.includes({rdp, tensor})) ends[rdp][tensor] += aligned(each->bytes);
    }
  return ends;
}

void lay_out_snapshots(StageDraft& draft, const Buffers& snapshots) {
  MemoryPlan& memory = draft.program.memory;
  for (const std::vector<std::int64_t>& of_group : lay_out_by_owner(draft.degrees, snapshots))
    for (const std::int64_t end : of_group)
      memory.snapshot_bytes = std::max(memory.snapshot_bytes, end);
}

// Lays out the optimizer states that wait in host memory. They follow the snapshots.
void lay_out_states(MemoryPlan& memory, const Buffers& states) {
  memory.state_bytes = one_after_another(states);
  for (Buffer* each : states) each->offset += memory.snapshot_bytes;
}

// Lays out the buffers that have an owner, after all other memory. Also finds the rank that owns
// most bytes.
void lay_out_owned(StageDraft& draft, const Buffers& owned) {
  if (owned.empty()) return;
  std::vector<std::vector<std::int64_t>>& bytes = draft.program.memory.owned_bytes;
  bytes = lay_out_by_owner(draft.degrees, owned);
  std::int64_t most = 0;
  for (int rdp = 0; rdp < draft.degrees.rdp(); ++rdp)
    for (int tensor = 0; tensor < draft.degrees.tensor; ++tensor)
      if (bytes[rdp][tensor] > most) {
        most = bytes[rdp][tensor];
        draft.program.fullest = {rdp, tensor};
      }
}

// Lays out the copies of a slot or window from byte `from` on, and returns where the last copy
// ends.
std::int64_t lay_out_copies(SlotRegion& region, std::int64_t from, std::int64_t bytes) {
  region.offset = from;
  region.stride = bytes;
  return from + region.stride * region.slots;
}

// Chunks of a pool share slots. For the first chunk of a pool, lays out slots as large as its
// largest chunk needs, and returns where they end. The other chunks get the same slots.
std::int64_t lay_out_slots_of(const StageDraft& draft, std::vector<SlotRegion>& regions,
                              const std::vector<std::int64_t>& bytes, int chunk,
                              std::int64_t from) {
  const int pool = draft.pools.pool_of[chunk];
  if (pool != chunk) {
    regions[chunk] = regions[pool];
    return from;
  }
  std::int64_t largest = 0;
  for (int other = chunk; other < std::ssize(bytes); ++other)
    if (draft.pools.pool_of[other] == pool) largest = std::max(largest, bytes[other]);
  return lay_out_copies(regions[chunk], from, largest);
}

// Computes how many bytes each memory class adds to the peak of the rank whose own buffers are
// largest (Program::fullest).
void count_classes(StageDraft& draft, const Regions& regions) {
  MemoryPlan& memory = draft.program.memory;
  const auto bytes_of = [&](MemoryClass cls) -> std::int64_t& {
    return memory.class_bytes[static_cast<std::size_t>(cls)];
  };
  for (const Buffer* each : regions.persistent) bytes_of(each->cls) += aligned(each->bytes);
  for (const Buffer* each : regions.owned)
    if (each->owner.includes(draft.program.fullest)) bytes_of(each->cls) += aligned(each->bytes);
  bytes_of(MemoryClass::activations) += memory.task_offset - memory.persistent_bytes;
  bytes_of(MemoryClass::workspace) += memory.task_bytes;
}

}  // namespace

int add_buffer(StageDraft& draft, std::string_view name, MemoryClass cls, Region region,
               std::int64_t bytes, int chunk) {
  Buffer added;
  added.name = name;
  added.cls = cls;
  added.region = region;
  added.bytes = bytes;
  added.chunk = chunk;
  if (region == Region::slot) added.last = slot_always;
  std::vector<Buffer>& buffers = draft.program.memory.buffers;
  buffers.push_back(std::move(added));
  return static_cast<int>(buffers.size()) - 1;
}

void lay_out_slots(StageDraft& draft) {
  for (Buffers& in_slot : regions_of(draft).slot)
    draft.slot_bytes.push_back(draft.splits_backwards ? pack(in_slot) : one_after_another(in_slot));
}

void lay_out_memory(StageDraft& draft) {
  MemoryPlan& memory = draft.program.memory;
  Regions regions = regions_of(draft);
  lay_out_snapshots(draft, regions.snapshots);
  lay_out_states(memory, regions.states);
  lay_out_owned(draft, regions.owned);
  memory.persistent_bytes = one_after_another(regions.persistent);
  memory.host_bytes = memory.snapshot_bytes + memory.state_bytes;
  std::vector<std::int64_t> host_bytes;
  for (const Buffers& on_host : regions.host) host_bytes.push_back(one_after_another(on_host));
  std::int64_t end = memory.persistent_bytes;
  for (int chunk = 0; chunk < draft.chunks(); ++chunk) {
    end = lay_out_slots_of(draft, memory.slots, draft.slot_bytes, chunk, end);
    end = lay_out_copies(memory.windows[chunk], end, one_after_another(regions.window[chunk]));
    memory.host_bytes = lay_out_slots_of(draft, memory.host, host_bytes, chunk, memory.host_bytes);
  }
  memory.task_offset = end;
  for (Buffers& buffers : regions.task)
    memory.task_bytes = std::max(memory.task_bytes, pack(buffers));
  memory.owned_offset = memory.task_offset + memory.task_bytes;
  memory.arena_bytes = memory.owned_offset;
  const Owner& fullest = draft.program.fullest;
  memory.arena_bytes = memory.arena_bytes_of(fullest.rdp, fullest.tensor);
  count_classes(draft, regions);
}

}  // namespace meshwright::compiler
