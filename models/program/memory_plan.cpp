#include "models/program/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "models/core/error.h"
#include "models/core/round_up.h"

namespace meshwright::program {

std::string_view name_of(MemoryClass cls) {
  constexpr std::string_view names[] = {"parameters", "gradients",     "optimizer", "activations",
                                        "workspace",  "communication", "snapshot"};
  return names[static_cast<std::size_t>(cls)];
}

namespace {

// Returns the region that holds the copies of a slot, window or host buffer, which is that of its
// chunk.
const SlotRegion& copies_of(const MemoryPlan& plan, const Buffer& buffer) {
  const auto& regions = buffer.region == Region::window ? plan.windows
                        : buffer.region == Region::host ? plan.host
                                                        : plan.slots;
  return regions[buffer.chunk];
}

std::int64_t limit_of(const MemoryPlan& plan, const Buffer& buffer) {
  switch (buffer.region) {
    case Region::persistent:
      return plan.persistent_bytes;
    case Region::task:
      return plan.task_bytes;
    case Region::owned:
      return plan.arena_bytes_of(buffer.owner.rdp, std::max(0, buffer.owner.tensor)) -
             plan.owned_offset;
    case Region::host:
      if (buffer.chunk < 0) return plan.snapshot_bytes + plan.state_bytes;
      [[fallthrough]];
    default:
      return copies_of(plan, buffer).stride;
  }
}

bool host_slots_lie_in_arena(const MemoryPlan& plan) {
  return std::ranges::all_of(plan.host, [&](const SlotRegion& host) {
    return host.offset >= plan.snapshot_bytes + plan.state_bytes &&
           host.offset + host.stride * host.slots <= plan.host_bytes;
  });
}

// Returns whether the regions of two chunks overlap without being the same. Two chunks must share
// all of their copies or none.
bool some_overlap(const std::vector<SlotRegion>& regions) {
  const auto end_of = [](const SlotRegion& region) {
    return region.offset + region.stride * region.slots;
  };
  for (std::size_t i = 0; i < regions.size(); ++i)
    for (std::size_t j = i + 1; j < regions.size(); ++j) {
      const SlotRegion &a = regions[i], &b = regions[j];
      if (a != b && std::max(a.offset, b.offset) < std::min(end_of(a), end_of(b))) return true;
    }
  return false;
}

bool lie_before_tasks(const std::vector<SlotRegion>& regions, const MemoryPlan& plan) {
  return std::ranges::all_of(regions, [&](const SlotRegion& region) {
    return region.offset + region.stride * region.slots <= plan.task_offset;
  });
}

}  // namespace

std::int64_t MemoryPlan::address(int buffer, int slot, int window) const {
  const Buffer& found = buffers[buffer];
  switch (found.region) {
    case Region::persistent:
      return found.offset;
    case Region::task:
      return task_offset + found.offset;
    case Region::owned:
      return owned_offset + found.offset;
    case Region::host:
      if (found.chunk < 0) return found.offset;
      break;
    default:
      break;
  }
  const SlotRegion& region = copies_of(*this, found);
  return region.offset + region.stride * (found.region == Region::window ? window : slot) +
         found.offset;
}

std::int64_t MemoryPlan::arena_bytes_of(int rdp, int tensor) const {
  if (owned_bytes.empty()) return arena_bytes;
  return owned_offset + owned_bytes[rdp][tensor];
}

int MemoryPlan::pool_of(int chunk) const {
  if (static_cast<std::size_t>(chunk) >= slots.size()) return chunk;
  const SlotRegion& own = slots[chunk];
  if (own.stride * own.slots == 0) return chunk;
  return static_cast<int>(std::ranges::find(slots, own) - slots.begin());
}

namespace {

enum class Gap : std::uint8_t { lowest, tightest };

std::int64_t end_of(const Buffer& buffer) {
  return round_up(buffer.offset + buffer.bytes, arena_alignment);
}

// Sets offsets of buffers, which must be in order of first use, and returns the size of their
// region in bytes. Each buffer gets a gap before or between live buffers into which it fits: the
// lowest or the tightest one, as `wanted` says. If there is none, it is placed after all live
// buffers.
std::int64_t place(const std::vector<Buffer*>& buffers, Gap wanted) {
  std::vector<Buffer*> live;  // by offset
  std::int64_t size = 0;
  for (Buffer* buffer : buffers) {
    std::erase_if(live, [&](const Buffer* other) { return other->last < buffer->first; });
    std::int64_t begin = 0, tightest = std::numeric_limits<std::int64_t>::max();
    auto before = live.end();
    for (auto next = live.begin(); next != live.end(); ++next) {
      const std::int64_t gap = (*next)->offset - begin;
      if (gap >= buffer->bytes && gap < tightest) {
        tightest = gap;
        before = next;
        buffer->offset = begin;
        if (wanted == Gap::lowest) break;
      }
      begin = std::max(begin, end_of(**next));
    }
    if (before == live.end()) buffer->offset = begin;
    live.insert(before, buffer);
    size = std::max(size, end_of(*buffer));
  }
  return size;
}

}  // namespace

// Tries both kinds of gap and keeps the result with the smaller region.
std::int64_t pack(std::vector<Buffer*>& buffers) {
  std::ranges::stable_sort(buffers,
                           [](const Buffer* a, const Buffer* b) { return a->first < b->first; });
  const std::int64_t lowest = place(buffers, Gap::lowest);
  const std::int64_t tightest = place(buffers, Gap::tightest);
  return tightest < lowest ? tightest : place(buffers, Gap::lowest);
}

namespace {

// Returns a buffer that overlaps another one while both are live, or null if there is none. The
// buffers are of one region and, if they have them, of one body or chunk. Two buffers that no rank
// has both of never overlap.
const Buffer* overlapping(const std::vector<const Buffer*>& buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    for (std::size_t j = i + 1; j < buffers.size(); ++j) {
      const Buffer &a = *buffers[i], &b = *buffers[j];
      const bool on_one_rank = a.owner.includes(b.owner) || b.owner.includes(a.owner);
      const bool together = on_one_rank && a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      if (together && overlap) return &b;
    }
  return nullptr;
}

}  // namespace

std::string broken_rule(const MemoryPlan& plan) {
  std::map<std::pair<Region, int>, std::vector<const Buffer*>> together_in;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.region == Region::task && buffer.body < 0) continue;  // no body uses it
    if (buffer.offset < 0 || buffer.offset + buffer.bytes > limit_of(plan, buffer))
      return "buffer " + buffer.name + " does not lie in its region";
    if (buffer.region != Region::persistent)
      together_in[{buffer.region, buffer.region == Region::task ? buffer.body : buffer.chunk}]
          .push_back(&buffer);
  }
  for (const auto& [place, buffers] : together_in)
    if (const Buffer* buffer = overlapping(buffers))
      return "buffer " + buffer->name + " overlaps another one that is live at the same time";
  if (!host_slots_lie_in_arena(plan))
    return "slots in host memory do not lie in its arena, behind snapshots and states";
  if (!lie_before_tasks(plan.slots, plan) || !lie_before_tasks(plan.windows, plan))
    return "slots and windows do not lie before the task region";
  for (const auto* regions : {&plan.slots, &plan.windows, &plan.host})
    if (some_overlap(*regions)) return "the copies of two chunks overlap and are not the same";
  std::int64_t sum = 0;
  for (std::int64_t bytes : plan.class_bytes) sum += bytes;
  return sum == plan.arena_bytes ? "" : "the classes do not make up the arena";
}

void verify(const MemoryPlan& plan) {
  const std::string broken = broken_rule(plan);
  MESHWRIGHT_CHECK(broken.empty(), broken);
}

}  // namespace meshwright::program
