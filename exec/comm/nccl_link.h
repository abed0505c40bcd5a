// One NCCL communicator and the operations that have been issued on it. The stream marks the begin
// and the end of every operation (exec/backends/cuda/device/host_mark.h), in a captured graph too.
// So another thread can name the operation that does not end.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/backends/cuda/device/host_mark.h"
#include "models/core/dtype.h"
#include "models/program/program.h"

namespace meshwright::exec {

// Throws a RunError with the call's name and NCCL's words if `result` is an error. `comm` may be
// null.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm);

#if NCCL_VERSION_CODE >= 22700
using NcclWindow = ncclWindow_t;
constexpr bool has_nccl_windows = true;
#else
using NcclWindow = void*;
constexpr bool has_nccl_windows = false;
#endif

struct NcclOperation {
  InstructionKind kind = InstructionKind::all_reduce;
  std::int64_t bytes = 0;
  int other = -1;                             // world rank of root, sender or receiver; -1: none
  std::optional<Dtype> dtype = std::nullopt;  // none: nothing is summed
};
std::string text_of(const NcclOperation& operation);

class NcclLink {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes ownership of `comm`. `name` is its name in messages, such as "group tensor". `others`
  // holds the world ranks of the other members.
  NcclLink(ncclComm_t comm, std::string name, std::span<const int> others);
  // Ends the communicator together with the other members. While an exception is in flight, aborts
  // it without them.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  ncclComm_t comm() const { return comm_; }

  // Registers `memory` as symmetric until the link ends. Does nothing if this build's NCCL is older
  // than 2.27. Every member calls it at the same time with the same number of bytes.
  void open_window(void* memory, std::size_t bytes);

  // Calls issue(comm), which puts the operation on the stream. Throws a RunError that names the
  // operation if it fails.
  template <typename Issue>
  void run(const NcclOperation& operation, cudaStream_t stream, const Issue& issue) {
    const unsigned int number = begin(operation, stream);
    const ncclResult_t result = issue(comm_);
    end(number, stream, result);
  }

  // Returns NCCL's asynchronous error, or the operation during which nothing has changed for the
  // deadline or longer, or none if all is well. The watching thread calls it.
  struct Trouble {
    std::string what;
    bool is_late = false;
  };
  std::optional<Trouble> trouble(Clock::time_point now, double deadline_s);

 private:
  struct Numbered {
    unsigned int number = 0;
    NcclOperation operation;
  };

  unsigned int begin(const NcclOperation& operation, cudaStream_t stream);
  void end(unsigned int number, cudaStream_t stream, ncclResult_t result);
  std::string describe(unsigned int number);

  ncclComm_t comm_;
  std::string name_;
  std::vector<NcclWindow> windows_;
  cuda::HostMark mark_;                   // 2 n: operation n has begun; 2 n + 1: it has ended
  unsigned int issued_ = 0;               // operations, counted from 1
  std::atomic<unsigned int> issuing_{0};  // by the host at this moment; 0: none

  std::mutex mutex_;
  std::array<Numbered, 1024> latest_;  // operations outside graphs, by number modulo its size
  std::vector<Numbered> captured_;     // operations of graphs, which every replay repeats

  // Only the watching thread uses these.
  cuda::HostMark::Reading seen_;
  unsigned int seen_issuing_ = 0;
  Clock::time_point since_;
};

}  // namespace meshwright::exec
