// Describes every buffer of one stage's Program, with its size, its lifetime and its offset in the
// arena, the memory of a rank. The simulator reports the size of the arena, and the engine
// allocates it once.
//
// Arena: [persistent][slots of chunk 0][windows of chunk 0][slots of chunk 1]...[task][owned].
// Persistent buffers live for the whole run. A slot holds what one micro-batch in flight saves from
// its forward to its backward task (to its weights task, if the schedule has those). Activations
// that are offloaded to host memory in between are in a window while they are on the device. Chunks
// that share slots have the same region, at the offset of the first of them. The task region is
// reused by every body. Inside the task region and inside a slot, buffers with overlapping
// lifetimes never overlap. Owned buffers are persistent, but only some ranks have them: each rank
// has its owned buffers, one after the other, at the end of its arena. Host memory is an arena of
// its own: [snapshots][optimizer states][slots of chunk 0]...
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::program {

enum class MemoryClass : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  workspace,
  communication,
  snapshot  // copies from which a checkpoint is written while training goes on
};
constexpr int memory_class_count = 7;
std::string_view name_of(MemoryClass cls);

enum class Region : std::uint8_t { persistent, slot, task, window, host, owned };

// The ranks of a stage that own a bucket or a buffer: those at data-parallel index `rdp` or, if
// tensor >= 0, only the one that also has this tensor index.
struct Owner {
  int rdp = -1, tensor = -1;  // rdp -1: all ranks
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
  int chunk = -1;           // of slot, window and host buffers; -1 for all other buffers, and for
                            // snapshots and optimizer states in host memory
  Owner owner;              // of owned buffers and snapshots
  int body = -1;            // task buffers: the body that uses it; -1: none does
  // Task buffers: the first and last instruction of the body between which the buffer is live, both
  // inclusive. Slot buffers: the first and last time in the life of the slot, by slot_time().
  int first = 0, last = 0;
  bool operator==(const Buffer&) const = default;
};

// Returns the time of an instruction in the life of a slot, where `body` is 0 for the backward body
// and 1 for the weights body. The forward body has time 0.
constexpr int slot_time(int body, int instruction) { return 1 + (body << 24) + instruction; }
constexpr int slot_always = 1 << 30;  // `last` of a buffer that lives as long as its slot

struct SlotRegion {
  std::int64_t offset = 0;  // of slot 0, from the arena's start
  std::int64_t stride = 0;
  int slots = 0;
  bool operator==(const SlotRegion&) const = default;
};

struct MemoryPlan {
  std::vector<Buffer> buffers;
  std::vector<SlotRegion> slots, windows;  // per chunk
  std::vector<SlotRegion> host;            // per chunk: its slots in the host arena
  std::int64_t persistent_bytes = 0;
  std::int64_t task_offset = 0, task_bytes = 0;
  std::int64_t owned_offset = 0;
  std::vector<std::vector<std::int64_t>> owned_bytes;  // [rdp][tensor]; empty: nothing is owned
  std::int64_t arena_bytes = 0;                        // of a rank that owns most
  // Bytes of host memory: for snapshots, for optimizer states that are there between steps, and in
  // total.
  std::int64_t snapshot_bytes = 0, state_bytes = 0, host_bytes = 0;
  std::array<std::int64_t, memory_class_count>
      class_bytes{};  // what each class adds to the peak; their sum is arena_bytes

  // Returns the offset, in bytes, of a buffer from the start of the arena or, for buffers in host
  // memory, of the host's arena. `slot` and `window` say which copy is meant. They are ignored for
  // buffers that have one copy.
  std::int64_t address(int buffer, int slot, int window = 0) const;
  std::int64_t arena_bytes_of(int rdp, int tensor) const;
  // Returns the first of the chunks that share slots with `chunk`, or `chunk` itself if its slots
  // take no memory.
  int pool_of(int chunk) const;
  bool operator==(const MemoryPlan&) const = default;
};

constexpr std::int64_t arena_alignment = 256;

// Sets the offsets of the buffers of one body (or slot) so that buffers never overlap while they
// are live. Sorts `buffers` by first use. Returns the size of their region in bytes.
std::int64_t pack(std::vector<Buffer*>& buffers);

// Checks that every buffer that is used is inside its region, and that buffers in slots, windows,
// tasks and host memory and owned buffers do not overlap while they are live. Also checks that
// slots and windows lie before the task region, that those of two chunks do not overlap unless the
// chunks share them, that host memory has room for its parts, and that the bytes of the classes add
// up to the arena. Returns the broken rule in words, or "" if none is broken.
std::string broken_rule(const MemoryPlan& plan);
// Aborts with a message if a rule is broken. It is for plans that meshwright made itself.
void verify(const MemoryPlan& plan);

}  // namespace meshwright::program
