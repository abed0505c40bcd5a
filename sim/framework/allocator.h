// Models allocators of device memory, which a modelled training step asks for blocks.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace meshwright::sim {

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual int allocate(std::int64_t bytes) = 0;  // returns the number of the block
  virtual void release(int block) = 0;
};

// Counts the bytes that are allocated, as if every byte of the device could be used.
class CountingAllocator final : public Allocator {
 public:
  int allocate(std::int64_t bytes) override;
  void release(int block) override;
  std::int64_t peak_bytes() const { return peak_; }

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t live_ = 0, peak_ = 0;
};

// Models PyTorch's allocator for CUDA (c10/cuda/CUDACachingAllocator.cpp). Requests are rounded up
// to 512 bytes and taken out of segments, which the device gives in pieces of 2 MiB (for requests
// up to 1 MiB), 20 MiB (below 10 MiB) or the request rounded up to 2 MiB. A request gets the
// smallest free block of its pool that is large enough, and the rest of the block stays free if it
// is of use. Neighbours in one segment join when both are free. The allocator keeps its segments.
// Only when the device has no more memory does it give back segments without any block in use. If a
// request does not fit even then, out_of_memory() returns true from that time on.
class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(std::int64_t capacity) : capacity_(capacity) {}
  int allocate(std::int64_t bytes) override;
  void release(int block) override;
  bool out_of_memory() const { return out_of_memory_; }  // true once a request did not fit
  std::int64_t reserved_bytes() const { return reserved_; }

 private:
  struct Block {
    std::int64_t bytes = 0;
    bool small = false, in_use = false;
    int before = -1, after = -1;  // neighbours in its segment; -1: none
  };
  // The free blocks (bytes and number), sorted by size, then by number.
  using Pool = std::set<std::pair<std::int64_t, int>>;

  Block& at(int block) { return blocks_[block]; }
  Pool& pool(const Block& block) { return block.small ? small_ : large_; }
  int add_segment(std::int64_t bytes, bool small);
  void give_back(Pool& pool);
  void split(int block, std::int64_t bytes);
  int join(int left, int right);

  std::int64_t capacity_, reserved_ = 0;
  bool out_of_memory_ = false;
  std::vector<Block> blocks_;
  Pool small_, large_;
};

}  // namespace meshwright::sim
