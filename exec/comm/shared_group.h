// The shared-memory side of a process group on one host: the places of the peers' buffers, and a
// barrier.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/comm/backoff.h"
#include "exec/comm/shared_segment.h"

namespace meshwright {

// A buffer of some rank: which of its segments, and how far into it.
struct SharedPlace {
  std::int64_t segment = -1;  // -1: in no segment
  std::int64_t offset = 0;
};

// The state that one rank shows its peers of one group. It is stored in shared memory and begins as
// zeros.
struct alignas(64) SharedSlot {
  std::atomic<std::uint64_t> arrived;  // barriers that this rank has reached
  SharedPlace place;                   // its buffer in the collective under way
};

// All segments that this process made or opened: one set per allocation, by world rank.
class SharedSegments {
 public:
  void add(std::vector<SharedSegment> by_rank) { sets_.push_back(std::move(by_rank)); }
  SharedPlace find(int rank, const void* data, std::int64_t bytes) const;
  char* address(int rank, const SharedPlace& place) const;  // null: not mapped here
  std::int64_t resident_bytes_of_others(int rank) const;

 private:
  std::vector<std::vector<SharedSegment>> sets_;
};

class SharedGroup {
 public:
  // slots: of the members, in group order; ranks: their world ranks.
  SharedGroup(std::vector<SharedSlot*> slots, std::span<const int> ranks, int own,
              const SharedSegments& segments, const double& deadline_s);

  // WaitedTooLong names those who did not come.
  void barrier(const std::function<void()>& progress);
  // Shows the peers where `data` is, waits for all of them, and returns everybody's address; empty
  // (on all ranks) when somebody's buffer is not shared. Valid until the next barrier.
  std::span<char* const> meet(const void* data, std::int64_t bytes,
                              const std::function<void()>& progress);

 private:
  [[noreturn]] void give_up() const;

  std::vector<SharedSlot*> slots_;
  std::vector<int> ranks_;
  std::size_t own_;
  const SharedSegments& segments_;
  const double& deadline_s_;  // the world's, which may change
  std::vector<char*> addresses_;
  std::uint64_t barriers_ = 0;
};

}  // namespace meshwright
