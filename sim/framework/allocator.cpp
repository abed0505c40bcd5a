#include "sim/framework/allocator.h"

#include <algorithm>

#include "models/core/round_up.h"

namespace meshwright::sim {

namespace {

constexpr std::int64_t granule = 512;  // requests are rounded up to multiples of this
// Requests of at most `small_request` bytes are taken from segments of `small_segment` bytes, and
// larger ones below `medium_request` from segments of `medium_segment` bytes. All others get a
// segment of their size, rounded up to a multiple of `large_granule`.
constexpr std::int64_t small_request = 1 << 20;
constexpr std::int64_t small_segment = 2 << 20;
constexpr std::int64_t medium_request = 10 << 20, medium_segment = 20 << 20;
constexpr std::int64_t large_granule = 2 << 20;

std::int64_t segment_of(std::int64_t bytes) {
  if (bytes <= small_request) return small_segment;
  return bytes < medium_request ? medium_segment : round_up(bytes, large_granule);
}

}  // namespace

int CountingAllocator::allocate(std::int64_t bytes) {
  sizes_.push_back(bytes);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return static_cast<int>(sizes_.size()) - 1;
}

void CountingAllocator::release(int block) { live_ -= sizes_[block]; }

int CachingAllocator::allocate(std::int64_t bytes) {
  bytes = std::max(granule, round_up(bytes, granule));
  const bool small = bytes <= small_request;
  Pool& free = small ? small_ : large_;
  int block = -1;
  if (const auto found = free.lower_bound({bytes, -1}); found != free.end()) {
    block = found->second;
    free.erase(found);
  } else {
    block = add_segment(segment_of(bytes), small);
  }
  at(block).in_use = true;
  // The rest of a large block is only split off if large requests can use it.
  const std::int64_t rest = at(block).bytes - bytes;
  if (small ? rest >= granule : rest > small_request) split(block, bytes);
  return block;
}

void CachingAllocator::release(int block) {
  at(block).in_use = false;
  const int before = at(block).before;
  if (before >= 0 && !at(before).in_use) block = join(before, block);
  const int after = at(block).after;
  if (after >= 0 && !at(after).in_use) block = join(block, after);
  pool(at(block)).insert({at(block).bytes, block});
}

int CachingAllocator::add_segment(std::int64_t bytes, bool small) {
  if (reserved_ + bytes > capacity_) {
    give_back(small_);
    give_back(large_);
  }
  out_of_memory_ = out_of_memory_ || reserved_ + bytes > capacity_;
  reserved_ += bytes;
  blocks_.push_back({.bytes = bytes, .small = small});
  return static_cast<int>(blocks_.size()) - 1;
}

void CachingAllocator::give_back(Pool& pool) {
  std::erase_if(pool, [&](const auto& entry) {
    const Block& block = at(entry.second);
    const bool whole_segment = block.before < 0 && block.after < 0;
    if (whole_segment) reserved_ -= block.bytes;
    return whole_segment;
  });
}

void CachingAllocator::split(int block, std::int64_t bytes) {
  const int rest = static_cast<int>(blocks_.size());
  blocks_.push_back({.bytes = at(block).bytes - bytes,
                     .small = at(block).small,
                     .before = block,
                     .after = at(block).after});
  if (at(block).after >= 0) at(at(block).after).before = rest;
  at(block).after = rest;
  at(block).bytes = bytes;
  pool(at(rest)).insert({at(rest).bytes, rest});
}

// Joins two neighbouring free blocks, and takes those that are in a pool out of it. Returns the
// left block, which now covers both.
int CachingAllocator::join(int left, int right) {
  pool(at(left)).erase({at(left).bytes, left});
  pool(at(right)).erase({at(right).bytes, right});
  at(left).bytes += at(right).bytes;
  at(left).after = at(right).after;
  if (at(left).after >= 0) at(at(left).after).before = left;
  return left;
}

}  // namespace meshwright::sim
