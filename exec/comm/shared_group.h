// The shared-memory side of a process group on one host: it finds the peers' buffers, and has a
// barrier.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/comm/backoff.h"
#include "exec/comm/shared_segment.h"

namespace meshwright::exec {

// The place of a buffer in shared memory: the number of its rank's segment, and the offset in it in
// bytes.
struct SharedPlace {
  std::int64_t segment = -1;  // -1: in no segment
  std::int64_t offset = 0;
};

// The state that one rank shows its peers of one group. It is stored in shared memory and begins as
// zeros.
struct alignas(64) SharedSlot {
  std::atomic<std::uint64_t> arrived;  // barriers that this rank has reached
  SharedPlace place;                   // its buffer in the collective in flight
};

// All segments that this process has made or opened. There is one set per allocation, indexed by
// world rank.
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
  // `slots` holds those of the members in group order, `ranks` their world ranks, and `own` is this
  // rank's index among them.
  SharedGroup(std::vector<SharedSlot*> slots, std::span<const int> ranks, int own,
              const SharedSegments& segments, const double& deadline_s);

  // Waits for all members and calls `progress` in the meantime. Throws WaitedTooLong, which names
  // the missing ranks, after the deadline.
  void barrier(const std::function<void()>& progress);
  // Tells the peers where `data` is, waits for all of them, and returns the address of every
  // member's buffer in group order. Returns an empty span on all ranks if one of the buffers is not
  // in shared memory. The buffers may be used until the next barrier.
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

}  // namespace meshwright::exec
