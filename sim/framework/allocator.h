// Device memory as a training step asks for it: block by block.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace meshwright {

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual int allocate(std::int64_t bytes) = 0;  // a block's number
  virtual void release(int block) = 0;
};

// Sums what is asked for; every byte can be used.
class CountingAllocator final : public Allocator {
 public:
  int allocate(std::int64_t bytes) override;
  void release(int block) override;
  std::int64_t peak_bytes() const { return peak_; }

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t live_ = 0, peak_ = 0;
};

// PyTorch's allocator for CUDA (c10/cuda/CUDACachingAllocator.cpp): requests are rounded up to 512
// bytes and taken out of segments, which the device gives in pieces of 2 MiB (for requests up to 1
// MiB), 20 MiB (up to 10 MiB) or the request rounded up to 2 MiB. Of the free blocks of its pool a
// request gets the smallest that is large enough, and what is left of it stays free; neighbours of
// one segment join when both are free. Segments stay with the allocator; only when the device has
// no more are those given back of which nothing is in use. What does not fit then does not fit.
class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(std::int64_t capacity) : capacity_(capacity) {}
  int allocate(std::int64_t bytes) override;
  void release(int block) override;
  bool out_of_memory() const { return out_of_memory_; }  // some request did not fit
  std::int64_t reserved_bytes() const { return reserved_; }

 private:
  struct Block {
    std::int64_t bytes = 0;
    bool small = false, in_use = false;
    int before = -1, after = -1;  // in its segment
  };
  // Free blocks by size, then by age.
  using Pool = std::set<std::pair<std::int64_t, int>>;

  Block& at(int block) { return blocks_[static_cast<std::size_t>(block)]; }
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

}  // namespace meshwright
