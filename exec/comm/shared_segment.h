// Memory that the processes of one host see together. Each rank makes its own segment, an unnamed
// file in memory (nothing is left behind, however the process ends), and maps those of its peers.
#pragma once

#include <cstdint>

namespace meshwright::exec {

// Names a segment so that another process can open it. It is plain data, which is sent from rank to
// rank.
struct SegmentName {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::int64_t bytes = 0;
};

class SharedSegment {
 public:
  SharedSegment() = default;
  static SharedSegment create(std::int64_t bytes);  // base() is null if it cannot be made
  static SharedSegment open(const SegmentName& name);
  SharedSegment(SharedSegment&& other) noexcept { swap(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedSegment();

  char* base() const { return base_; }
  std::int64_t bytes() const { return bytes_; }
  SegmentName name() const;
  void close_descriptor();  // called once everybody has opened it; the mapping stays

 private:
  void swap(SharedSegment& other);
  static SharedSegment map(int descriptor, std::int64_t bytes);

  char* base_ = nullptr;
  std::int64_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace meshwright::exec
