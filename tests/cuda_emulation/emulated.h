// A GPU in the mind of the CPU: the kernels and host code of the CUDA backend are compiled as plain
// C++ against the stand-ins in this folder and run here, so that their text is tested where there
// is no GPU. What a device would forgive by chance is made to show:
// - streams run as late as they may: nothing happens before a host waits for it, and then only what
//   that needs, so a missing event or a missing wait is a wrong result;
// - memory is 0xFF (a NaN) when it is given out and when it is given back; device memory is out of
//   reach of the host outside of device work; bytes beyond an allocation are watched;
// - a block's threads run in an order that can be turned round, which must make no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

struct CUstream_st;

namespace emulated {

struct Extent {
  unsigned int x = 1, y = 1, z = 1;
};

// Appends a grid of blocks to the stream. std::logic_error for sizes that no device takes; when it
// is run, for threads that wait for others which never come.
void launch(Extent blocks, Extent threads, std::int64_t shared_bytes, CUstream_st* stream,
            std::function<void()> body);

// Dynamic shared memory of the block at work; 0xFF at its start.
unsigned char* shared_memory();

// Appends any other work of a device to the stream, as a library of kernels does.
void enqueue(CUstream_st* stream, std::function<void()> work);
// Appends work that may have to wait for other processes. It is called repeatedly until it returns
// that it is done, while the other streams continue.
void enqueue_until(CUstream_st* stream, std::function<bool()> done);

// Properties that the device reports: those of an H100 with few multiprocessors, unless a test sets
// others.
struct Hardware {
  int major = 9, minor = 0;              // compute capability
  std::size_t shared_bytes = 227 << 10;  // of a block that asks for them
  bool has_kernels = true;               // that this build has machine code for
  int multiprocessors = 6;
};
const Hardware& hardware();
// Replaces the device's properties while an object of this class exists.
class OtherHardware {
 public:
  explicit OtherHardware(const Hardware& other);
  ~OtherHardware();
  OtherHardware(const OtherHardware&) = delete;
  OtherHardware& operator=(const OtherHardware&) = delete;

 private:
  Hardware before_;
};

// A request to the device: a kernel, a library's matmul, or memory that is set or copied.
struct Asked {
  enum class Kind { kernel, product, memory };
  Kind kind = Kind::kernel;
  Extent blocks = {}, threads = {};
  std::int64_t shared_bytes = 0;                // dynamic ones, of a block
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // of a product
  std::int64_t bytes = 0;                       // set or copied
};
// While an object of this class exists, requests are only listed and nothing runs. Operands may be
// at any address, and the text of kernels is not compiled.
class Listing {
 public:
  Listing();
  ~Listing();
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
  std::vector<Asked> asked;
};
Listing* listing();  // null: the device works

// Runs threads, warps and blocks in the opposite order from now on if `reversed`.
void reverse_threads(bool reversed);

// Whether the host may not touch device memory outside of device work; true at first.
void protect_memory(bool wanted);

// ---- inside a kernel

void barrier();  // of the block
unsigned int lane();
// Exchanges values in a warp. Returns the value of each lane of `mask`; for other lanes it is their
// last value, or all bits set if they had none. The caller calls exchanged() after reading.
std::span<const std::uint64_t, 32> exchange(unsigned int mask, std::uint64_t given);
void exchanged(unsigned int mask);

// ---- between the files here

// Calls `one_thread` for every thread of every block.
void run_grid(Extent blocks, Extent threads, std::size_t shared_bytes,
              const std::function<void()>& one_thread);
void open_memory(bool open);
// Throws std::logic_error if something wrote beyond an allocation of device memory.
void check_memory();
enum class Space { pageable, pinned, device, nowhere };
Space space_of(const void* begin, std::size_t bytes);
bool is_capturing();
// Returns the capture that the stream is part of, or null outside of a capture.
std::shared_ptr<const void> capture_of(CUstream_st* stream);

}  // namespace emulated
