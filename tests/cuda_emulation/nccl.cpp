// Carries out NCCL's operations by messages of MPI. Each rank sends its elements to the ranks that
// need them, and makes the result from those that have come.
#define OMPI_SKIP_MPICXX 1
#include "tests/cuda_emulation/nccl.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "exec/core/half.h"
#include "tests/cuda_emulation/emulated.h"

namespace {

std::atomic<ncclResult_t> broken{ncclSuccess};
std::set<void*> own_memory;  // memory from ncclMemAlloc()
int open_windows = 0;

enum class Kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };

// Describes a call. Both ends of a message must have made the same call, where a receive counts as
// the send that it belongs to.
struct Call {
  Kind kind;
  std::int64_t bytes;
  int type, operation, root;
  bool operator==(const Call&) const = default;
};

std::int64_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclFloat32:
      return 4;
    case ncclFloat64:
      return 8;
  }
  return 0;
}

// A message that has been sent and may not have been taken yet.
struct Leaving {
  std::vector<char> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

}  // namespace

struct ncclWindow_vidmem {};

struct ncclComm {
  MPI_Comm mpi = MPI_COMM_NULL;
  int rank = 0, size = 1;
  int operations = 0;               // collectives so far
  std::vector<int> sent, received;  // messages so far, by peer
  std::list<Leaving> leaving;
  int captured = 0;              // operations in graphs that exist
  cudaEvent_t latest = nullptr;  // recorded after the operation that was issued last
  bool latest_is_captured = false;
  std::weak_ptr<const void> latest_in;  // the capture that this was issued in
  bool over = false;                    // finalized or aborted
  int windows = 0;                      // number of open windows

  void sweep() {
    std::erase_if(leaving, [](Leaving& message) {
      int flag = 0;
      MPI_Test(&message.request, &flag, MPI_STATUS_IGNORE);
      return flag != 0;
    });
  }
  void send(int peer, int tag, const Call& call, const void* data, std::int64_t bytes) {
    Leaving& message = leaving.emplace_back();
    message.bytes.resize(sizeof call + static_cast<std::size_t>(bytes));
    std::memcpy(message.bytes.data(), &call, sizeof call);
    if (bytes > 0)
      std::memcpy(message.bytes.data() + sizeof call, data, static_cast<std::size_t>(bytes));
    MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, peer, tag,
              mpi, &message.request);
  }
};

namespace {

// A message for which an operation waits.
struct Coming {
  int peer = 0, tag = 0;
  Call call;  // the call that the peer must have made
  bool begun = false, here = false;
  std::vector<char> bytes;
  MPI_Request request = MPI_REQUEST_NULL;

  const char* data() const { return bytes.data() + sizeof(Call); }
  // Sets `here` once the message has come. A message of another call never counts.
  void poll(MPI_Comm comm) {
    if (here) return;
    int flag = 0;
    if (!begun) {
      MPI_Status status;
      MPI_Iprobe(peer, tag, comm, &flag, &status);
      if (flag == 0) return;
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      bytes.resize(static_cast<std::size_t>(count));
      MPI_Irecv(bytes.data(), count, MPI_BYTE, peer, tag, comm, &request);
      begun = true;
    }
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (flag == 0) return;
    Call made;
    std::memcpy(&made, bytes.data(), sizeof made);
    here = made == call;
  }
};

struct Numbers {
  double (*load)(const char* at);
  void (*store)(char* at, double x);
};

template <typename T>
constexpr Numbers plain = {[](const char* at) {
                             T x;
                             std::memcpy(&x, at, sizeof x);
                             return static_cast<double>(x);
                           },
                           [](char* at, double x) {
                             const T narrow = static_cast<T>(x);
                             std::memcpy(at, &narrow, sizeof narrow);
                           }};
template <meshwright::core::Dtype dtype>
constexpr Numbers of_16_bits = {[](const char* at) {
                                  float x = 0;
                                  meshwright::exec::widen(at, dtype, 1, &x);
                                  return static_cast<double>(x);
                                },
                                [](char* at, double x) {
                                  const auto wide = static_cast<float>(x);
                                  meshwright::exec::narrow(&wide, dtype, 1, at);
                                }};

Numbers numbers_of(int type) {
  switch (type) {
    case ncclFloat64:
      return plain<double>;
    case ncclFloat16:
      return of_16_bits<meshwright::core::Dtype::f16>;
    case ncclBfloat16:
      return of_16_bits<meshwright::core::Dtype::bf16>;
    default:
      return plain<float>;
  }
}

// One call of the interface, which runs each time that its stream or its graph comes to it.
class Operation {
 public:
  Operation(ncclComm* comm, const Call& call, const void* from, void* to)
      : comm_(comm),
        call_(call),
        from_(static_cast<const char*>(from)),
        to_(static_cast<char*>(to)) {}

  void start() {
    coming_.clear();
    if (call_.kind == Kind::send || call_.kind == Kind::recv) return start_message();
    const int tag = 2 * (comm_->operations++ % (1 << 20));
    own_.assign(from_, from_ + bytes_given());
    const bool needs = call_.kind != Kind::reduce || comm_->rank == call_.root;
    for (int peer = 0; peer < comm_->size; ++peer) {
      if (peer == comm_->rank) continue;
      // If only the root sends or receives, the other ranks still exchange empty messages, so that
      // no rank continues alone. NCCL would let some ranks do so.
      const bool gives = call_.kind == Kind::broadcast ? comm_->rank == call_.root
                         : call_.kind == Kind::reduce  ? peer == call_.root
                                                       : true;
      comm_->send(peer, tag, call_, own_.data(),
                  gives ? static_cast<std::int64_t>(own_.size()) : 0);
      coming_.push_back({peer, tag, call_, false, false, {}, MPI_REQUEST_NULL});
    }
    finishes_ = needs;
  }

  bool poll() {
    comm_->sweep();
    if (broken != ncclSuccess) return false;
    for (Coming& message : coming_) message.poll(comm_->mpi);
    return std::all_of(coming_.begin(), coming_.end(), [](const Coming& one) { return one.here; });
  }

  void finish() {
    switch (call_.kind) {
      case Kind::send:
        return;
      case Kind::recv:
        return copy(to_, coming_[0].data(), call_.bytes);
      case Kind::broadcast:
        return copy(to_, part_of(call_.root), call_.bytes);
      case Kind::all_gather:
        for (int peer = 0; peer < comm_->size; ++peer)
          copy(to_ + peer * call_.bytes, part_of(peer), call_.bytes);
        return;
      case Kind::reduce_scatter:
        return combine(comm_->rank * call_.bytes);
      default:
        if (finishes_) combine(0);
    }
  }

 private:
  std::size_t bytes_given() const {
    return static_cast<std::size_t>(call_.kind == Kind::reduce_scatter ? call_.bytes * comm_->size
                                                                       : call_.bytes);
  }
  static void copy(char* to, const char* from, std::int64_t bytes) {
    if (to != from && bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
  }

  // A send ends when the receiver has come to the message, as a large one does on a device.
  void start_message() {
    const bool sends = call_.kind == Kind::send;
    const int peer = call_.root;
    int& count = (sends ? comm_->sent : comm_->received)[static_cast<std::size_t>(peer)];
    const int tag = 4 * (count++ % (1 << 20));
    Call both = call_;
    both.kind = Kind::send;
    both.root = 0;
    const int there = tag + 1, back = tag + 3;
    comm_->send(peer, sends ? there : back, both, from_, sends ? call_.bytes : 0);
    coming_.push_back({peer, sends ? back : there, both, false, false, {}, MPI_REQUEST_NULL});
  }

  const char* part_of(int rank) const {
    if (rank == comm_->rank) return own_.data();
    return coming_[static_cast<std::size_t>(rank < comm_->rank ? rank : rank - 1)].data();
  }

  // Combines in the order of a ring: share c of the elements is combined from rank c + 1 on, and
  // rounded each time.
  void combine(std::int64_t begin) {
    const Numbers numbers = numbers_of(call_.type);
    const std::int64_t width = size_of(static_cast<ncclDataType_t>(call_.type));
    const std::int64_t count = call_.bytes / width;
    for (std::int64_t i = 0; i < count; ++i) {
      const int share = static_cast<int>(i * comm_->size / count);
      char* to = to_ + i * width;
      for (int turn = 1; turn <= comm_->size; ++turn) {
        const char* part = part_of((share + turn) % comm_->size) + begin + i * width;
        if (turn == 1) {
          std::memcpy(to, part, static_cast<std::size_t>(width));
          continue;
        }
        const double a = numbers.load(to), b = numbers.load(part);
        numbers.store(to, call_.operation == ncclMax ? std::max(a, b) : a + b);
      }
    }
  }

  ncclComm* comm_;
  Call call_;
  const char* from_;
  char* to_;
  std::vector<char> own_;  // copy of the input, which the result may overwrite
  std::vector<Coming> coming_;
  bool finishes_ = true;
};

// Operations that a communicator runs together on one stream.
struct Batch {
  ncclComm* comm;
  cudaStream_t stream;
  std::vector<Operation> operations;
  std::shared_ptr<void> in_graph = nullptr;
  bool begun = false;

  bool poll() {
    if (!begun)
      for (Operation& operation : operations) operation.start();
    begun = true;
    bool done = true;
    for (Operation& operation : operations) done = operation.poll() && done;
    if (!done) return false;
    for (Operation& operation : operations) operation.finish();
    begun = false;  // a graph may run it again
    return true;
  }
};

// Orders the operations of a communicator as they were issued, on all streams and within a graph.
// The caller's own waits must order different graphs, and graphs with work outside of them.
void follow_latest(ncclComm& comm, cudaStream_t stream) {
  const std::shared_ptr<const void> capture = emulated::capture_of(stream);
  if (comm.latest_in.lock() == capture && comm.latest_is_captured == (capture != nullptr))
    cudaStreamWaitEvent(stream, comm.latest, cudaEventWaitDefault);
}
void be_latest(ncclComm& comm, cudaStream_t stream) {
  comm.latest_in = emulated::capture_of(stream);
  comm.latest_is_captured = !comm.latest_in.expired();
  cudaEventRecord(comm.latest, stream);
}

int depth = 0;
std::vector<Batch> batches;  // of the current group of calls

void issue() {
  for (Batch& batch : std::exchange(batches, {})) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(batch.stream, &status);
    if (status == cudaStreamCaptureStatusActive) {
      ++batch.comm->captured;
      batch.in_graph = {nullptr, [comm = batch.comm](void*) { --comm->captured; }};
    }
    ncclComm& comm = *batch.comm;
    const cudaStream_t stream = batch.stream;
    follow_latest(comm, stream);
    emulated::enqueue_until(
        stream, [batch = std::make_shared<Batch>(std::move(batch))] { return batch->poll(); });
    be_latest(comm, stream);
  }
}

ncclResult_t add(Kind kind, const void* from, void* to, std::size_t count, ncclDataType_t type,
                 int operation, int root, ncclComm* comm, cudaStream_t stream) {
  if (comm == nullptr || comm->over || root < 0 || root >= comm->size) return ncclInvalidArgument;
  if (broken != ncclSuccess) return broken;
  const Call call{kind, static_cast<std::int64_t>(count) * size_of(type), type, operation, root};
  auto place = std::find_if(batches.begin(), batches.end(), [&](const Batch& batch) {
    return batch.comm == comm && batch.stream == stream;
  });
  if (place == batches.end()) place = batches.insert(batches.end(), Batch{comm, stream, {}});
  place->operations.emplace_back(comm, call, from, to);
  if (depth == 0) issue();
  return ncclSuccess;
}

ncclComm* make_comm(MPI_Comm mpi) {
  auto* comm = new ncclComm;
  comm->mpi = mpi;
  MPI_Comm_rank(mpi, &comm->rank);
  MPI_Comm_size(mpi, &comm->size);
  comm->sent.resize(static_cast<std::size_t>(comm->size));
  comm->received.resize(static_cast<std::size_t>(comm->size));
  cudaEventCreate(&comm->latest);
  return comm;
}

struct Id {
  int root, serial;  // root: rank in the world
};
constexpr int meeting_tag = 1 << 20;

}  // namespace

void emulated::break_nccl(ncclResult_t error) { broken = error; }
int emulated::nccl_windows() { return open_windows; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "operation in progress"};
  return texts[result];
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  if (cudaMalloc(address, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  own_memory.insert(*address);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* address) {
  own_memory.erase(address);
  return cudaFree(address) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  std::uint64_t least = bytes, most = bytes;
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_UINT64_T, MPI_MIN, comm->mpi);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, comm->mpi);
  if (least != most || flags != NCCL_WIN_COLL_SYMMETRIC || own_memory.count(memory) == 0)
    return ncclInvalidArgument;
  *window = new ncclWindow_vidmem;
  comm->windows += 1;
  open_windows += 1;
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  delete window;
  comm->windows -= 1;
  open_windows -= 1;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int serial = 0;
  Id made{0, serial++};
  MPI_Comm_rank(MPI_COMM_WORLD, &made.root);
  std::memcpy(id->internal, &made, sizeof made);
  return ncclSuccess;
}

// The root receives the world rank of every member and sends all of them to each member.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 1) return ncclInvalidArgument;
  Id meeting;
  std::memcpy(&meeting, id.internal, sizeof meeting);
  const int tag = meeting_tag + meeting.serial % 1024;
  std::vector<int> members(static_cast<std::size_t>(ranks));
  int own[2] = {rank, 0};
  MPI_Comm_rank(MPI_COMM_WORLD, &own[1]);
  if (own[1] == meeting.root) {
    members[static_cast<std::size_t>(rank)] = own[1];
    for (int i = 1; i < ranks; ++i) {
      int other[2];
      MPI_Recv(other, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      members[static_cast<std::size_t>(other[0])] = other[1];
    }
    for (const int member : members)
      if (member != own[1]) MPI_Send(members.data(), ranks, MPI_INT, member, tag, MPI_COMM_WORLD);
  } else {
    MPI_Send(own, 2, MPI_INT, meeting.root, tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), ranks, MPI_INT, meeting.root, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Group all, group;
  MPI_Comm mpi;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, ranks, members.data(), &group);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &mpi);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  *comm = make_comm(mpi);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  if (config->blocking != 1) return ncclInvalidArgument;
  MPI_Comm mpi;
  MPI_Comm_split(comm->mpi, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &mpi);
  *made = mpi == MPI_COMM_NULL ? nullptr : make_comm(mpi);
  return ncclSuccess;
}

// Aborts the process if a graph or a window still uses the communicator. NCCL would wait for such a
// graph for ever.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->captured != 0) {
    std::fprintf(stderr, "NCCL: a communicator ends before a graph that uses it\n");
    std::abort();
  }
  if (comm->windows != 0) {
    std::fprintf(stderr, "NCCL: a communicator ends before its windows\n");
    std::abort();
  }
  for (Leaving& message : comm->leaving) MPI_Wait(&message.request, MPI_STATUS_IGNORE);
  comm->over = true;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm->over) return ncclInvalidUsage;
  MPI_Comm_free(&comm->mpi);
  cudaEventDestroy(comm->latest);
  delete comm;
  return ncclSuccess;
}
// Messages that were sent stay as they are, because they may never be received.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->over = true;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = broken;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return add(Kind::all_reduce, from, to, count, type, operation, 0, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream) {
  return add(Kind::reduce, from, to, count, type, operation, root, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return add(Kind::reduce_scatter, from, to, count, type, operation, 0, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(Kind::all_gather, from, to, count, type, 0, 0, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(Kind::broadcast, from, to, count, type, 0, root, comm, stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(Kind::send, from, nullptr, count, type, 0, peer, comm, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(Kind::recv, nullptr, to, count, type, 0, peer, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth == 0) issue();
  return ncclSuccess;
}
