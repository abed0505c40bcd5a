// Chooses which chunks of a stage share slots. A slot holds what one micro-batch saves from its
// forward to its backward. Chunks have most micro-batches in flight at different times, so together
// they need fewer slots than the sum of their maxima.
#pragma once

#include <span>
#include <vector>

#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

// The number of micro-batches of each chunk that are forwarded and not yet wholly backwarded, at
// one time.
using InFlight = std::vector<int>;

// Returns the times at which most micro-batches are in flight: no other time has at least as many
// of every chunk.
std::vector<InFlight> fullest_times(const StageOrder& order, int chunks);

// Spare slots of a pool that several chunks share. The next message is received while the task
// before it still computes on the slot that it is about to free.
constexpr int spare_slots = 1;

struct SlotPools {
  // By chunk: the lowest-numbered chunk with which it shares slots, or itself.
  std::vector<int> pool_of;
  std::vector<int> slots;  // by chunk: number of slots in its pool
};

// Returns the pools in which slots take least memory, among pools of chunks that follow each other
// by size. They never take more than slots without sharing. The slots of a pool are as large as its
// largest chunk needs. Their number is that of the micro-batches that its chunks have in flight
// together at the fullest of `times`, plus a spare one if several chunks share them.
SlotPools choose_slot_pools(std::span<const InFlight> times, std::span<const double> slot_bytes);

// Returns the bytes of all slots of a stage if no chunks share slots.
double bytes_of_slots_apart(std::span<const InFlight> times, std::span<const double> slot_bytes);

// Returns the bytes of all slots of a stage if chunks share them as choose_slot_pools() says, which
// is at most the bytes without sharing.
double bytes_of_slots(std::span<const InFlight> times, std::span<const double> slot_bytes);

}  // namespace meshwright::compiler
