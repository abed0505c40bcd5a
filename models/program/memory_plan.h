// Every buffer of one stage's Program with its size, lifetime and place in the arena. The simulator
// reports this arena, the engine allocates it once.
//
// Arena: [persistent][slots of chunk 0][windows of chunk 0][slots of chunk 1]...[task][owned].
// Persistent buffers live for the whole run. A slot holds what one micro-batch in flight keeps from
// its forward to its backward task (its weights task, where the schedule has them); what it keeps
// in host memory meanwhile lies in a window, of which there are fewer. Chunks that share slots have
// the same region, at the place of the first of them. The task region is reused by every body.
// Inside the task region and inside a slot, buffers with overlapping lifetimes never overlap. Owned
// buffers are persistent ones that not every rank has: each rank has those of its own, one after
// the other, and its arena ends with them. Host memory is an arena of its own:
// [snapshots][optimizer states][slots of chunk 0]...
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

enum class MemoryClass : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  workspace,
  communication,
  snapshot  // what a checkpoint is written from while training goes on
};
constexpr int memory_class_count = 7;
std::string_view name_of(MemoryClass cls);

enum class Region : std::uint8_t { persistent, slot, task, window, host, owned };

// The ranks of a stage that have something: those at one data-parallel index or, if tensor >= 0,
// only the one at that tensor index.
struct Owner {
  int rdp = -1, tensor = -1;  // rdp -1: everybody
  bool operator==(const Owner&) const = default;
  bool everybody() const { return rdp < 0; }
  bool includes(const Owner& rank) const {
    return everybody() || (rdp == rank.rdp && (tensor < 0 || tensor == rank.tensor));
  }
};

struct Buffer {
  std::string name;
  MemoryClass cls = MemoryClass::activations;
  Region region = Region::task;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;  // from the start of its region (of its slot)
  int chunk = -1;           // slot and window buffers; host buffers, but snapshots and states
  Owner owner;              // owned buffers, and snapshots
  int body = -1;            // task buffers: the body it lives in
  // Task buffers: instructions of that body between which it is live, inclusive. Slot buffers: the
  // same over the bodies that use the slot, see slot_time().
  int first = 0, last = 0;
  bool operator==(const Buffer&) const = default;
};

// Returns an instruction of the backward (0) or weights (1) body as a time in the life of a slot.
// The forward is before all of them.
constexpr int slot_time(int body, int instruction) { return 1 + (body << 24) + instruction; }
constexpr int slot_always = 1 << 30;  // `last` of what is live until the slot is given back

struct SlotRegion {
  std::int64_t offset = 0;  // of slot 0, from the arena's start
  std::int64_t stride = 0;
  int slots = 0;
  bool operator==(const SlotRegion&) const = default;
};

struct MemoryPlan {
  std::vector<Buffer> buffers;
  std::vector<SlotRegion> slots, windows;  // per chunk
  std::vector<SlotRegion> host;            // per chunk: as many slots, from the host arena's start
  std::int64_t persistent_bytes = 0;
  std::int64_t task_offset = 0, task_bytes = 0;
  std::int64_t owned_offset = 0;
  std::vector<std::vector<std::int64_t>> owned_bytes;  // [rdp][tensor]; empty: nothing is owned
  std::int64_t arena_bytes = 0;                        // of the ranks that own most
  // Bytes of host memory: snapshots, optimizer states that wait there, and the total.
  std::int64_t snapshot_bytes = 0, state_bytes = 0, host_bytes = 0;
  std::array<std::int64_t, memory_class_count>
      class_bytes{};  // what each class adds to the peak; sums to arena_bytes

  // Returns the bytes from the start of the arena, or of the host's arena.
  std::int64_t address(int buffer, int slot, int window = 0) const;
  std::int64_t arena_bytes_of(int rdp, int tensor) const;
  // Returns the first of the chunks that share slots with this one.
  int pool_of(int chunk) const;
  bool operator==(const MemoryPlan&) const = default;
};

constexpr std::int64_t arena_alignment = 256;

// Gives buffers of one body (or slot) offsets such that live ones never overlap; returns the
// region's size.
std::int64_t pack(std::vector<Buffer*>& buffers);

// Checks that live buffers never overlap and that everything lies inside the arena. Returns the
// rule that is broken, in words, or "" if there is none.
std::string broken_rule(const MemoryPlan& plan);
void verify(const MemoryPlan& plan);  // of our own: a breach is our bug

}  // namespace meshwright
