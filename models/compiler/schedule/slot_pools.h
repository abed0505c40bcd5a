// Which chunks of a stage share slots. Chunks have most micro-batches in flight at different times:
// together they have fewer than the sum of what each has at most.
#pragma once

#include <span>
#include <vector>

#include "models/compiler/schedule/schedule.h"

namespace meshwright {

// Micro-batches of each chunk that are forwarded and not yet wholly backwarded, at one time.
using InFlight = std::vector<int>;

// The times at which no other one has as many of every chunk.
std::vector<InFlight> fullest_times(const StageOrder& order, int chunks);

// That several chunks share: the next message comes in while the task before it still computes on
// the slot that it is about to give back.
constexpr int spare_slots = 1;

struct SlotPools {
  std::vector<int> pool_of;  // by chunk: the first chunk of those that it shares slots with
  std::vector<int> slots;    // by chunk: of its pool
};

// Those in which slots take least memory, of pools of chunks that follow each other by size; never
// more than without sharing. The slots of a pool are as large as its largest chunk needs, and as
// many as its chunks have micro-batches in flight together, and a spare one.
SlotPools choose_slot_pools(std::span<const InFlight> times, std::span<const double> slot_bytes);

// Of all slots of a stage, where no chunks share any: as many as each has micro-batches in flight.
double bytes_of_slots_apart(std::span<const InFlight> times, std::span<const double> slot_bytes);

// Of all slots of a stage, shared so; no more than apart.
double bytes_of_slots(std::span<const InFlight> times, std::span<const double> slot_bytes);

}  // namespace meshwright
