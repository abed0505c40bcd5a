// Emulates a GPU on the CPU. The kernels and the host code of the CUDA backend are compiled as
// plain C++ against the headers in this folder and run here, so that their text is tested without a
// GPU. Faults that a device would forgive by chance become visible:
// - Streams run as late as possible. Work is done only when a host waits for it or asks whether it
//   is done, together with the work that it needs. So a missing event or wait gives a wrong result.
// - Device memory is 0xFF (NaN) after it is allocated and after it is freed. The host cannot access
//   it outside of device work (protect_memory()), and bytes beside each allocation are watched.
// - Blocks, warps and their threads can run in the opposite order (reverse_threads()), which must
//   make no difference.
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

// Appends a grid of blocks to the stream. Does nothing if the grid has no blocks, only adds to the
// listing() if there is one, and fails if the hardware has no kernels. Throws std::logic_error for
// sizes that no device accepts. While the grid runs, std::logic_error is thrown if threads wait for
// others that never come.
void launch(Extent blocks, Extent threads, std::int64_t shared_bytes, CUstream_st* stream,
            std::function<void()> body);

// Returns the dynamic shared memory of the block that runs. Its bytes are 0xFF when the block
// begins.
unsigned char* shared_memory();

// Appends any other work of a device to the stream, as a library of kernels does.
void enqueue(CUstream_st* stream, std::function<void()> work);
// Appends work that may have to wait for other processes. It is called repeatedly until it returns
// that it is done, while the other streams continue.
void enqueue_until(CUstream_st* stream, std::function<bool()> done);

// Properties that the device reports. By default they are like those of an H100 with few
// multiprocessors.
struct Hardware {
  int major = 9, minor = 0;              // compute capability
  std::size_t shared_bytes = 227 << 10;  // most of a block
  bool has_kernels = true;               // whether this build has machine code for the device
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
  std::int64_t shared_bytes = 0;                // dynamic shared memory of a block
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // sizes of a product
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
Listing* listing();  // null: there is none, and requests are carried out

// Makes threads, warps and blocks run in the opposite order from now on, or in the usual order if
// not `reversed`.
void reverse_threads(bool reversed);

// Sets whether the host is kept from accessing device memory outside of device work. At first it
// is.
void protect_memory(bool wanted);

// ---- inside a kernel

void barrier();  // of the block's threads
unsigned int lane();
// Exchanges values among the lanes of a warp. Returns the value of each lane of `mask`. For each
// other lane the result has the value that the lane gave last, or all bits set if it gave none. The
// caller must call exchanged() after reading.
std::span<const std::uint64_t, 32> exchange(unsigned int mask, std::uint64_t given);
void exchanged(unsigned int mask);

// ---- between the files here

// Calls `one_thread` for every thread of every block.
void run_grid(Extent blocks, Extent threads, std::size_t shared_bytes,
              const std::function<void()>& one_thread);
void open_memory(bool open);
// Throws std::logic_error if something wrote to the watched bytes beside an allocation of device
// memory.
void check_memory();
enum class Space { pageable, pinned, device, nowhere };
Space space_of(const void* begin, std::size_t bytes);
bool is_capturing();
// Returns the capture that the stream is part of, or null outside of a capture.
std::shared_ptr<const void> capture_of(CUstream_st* stream);

}  // namespace emulated
