// Replaces the collectives of NCCL among ranks of which only one runs. They act as if every other
// rank held the same as this one, and move data only if it is small (memory.h). The log has sizes
// and groups.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <set>
#include <string_view>
#include <vector>

#include "tools/stand_in/in_flight.h"
#include "tools/stand_in/log.h"
#include "tools/stand_in/memory.h"

using namespace meshwright::stand_in;

namespace {

struct RankGroup {
  int ranks, rank;
};

const RankGroup& of(ncclComm_t group) { return *reinterpret_cast<const RankGroup*>(group); }

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::uint64_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

struct Call {
  const char* name;
  const void* from;
  void* to;
  std::uint64_t count, size;
  ncclComm_t group;
  int peer;
  cudaStream_t stream;
  int rank = -1;  // rank in the whole run of a message's other end; -1: unknown
  std::size_t bytes() const { return count * size; }
};

// Logs a call. `together` is the number of the group of calls that it is in, or 0.
void write(const Call& call, std::uint64_t together = 0) {
  append({.stream = reinterpret_cast<std::uint64_t>(call.stream),
          .numbers = {call.count, call.size, together,
                      static_cast<std::uint64_t>(of(call.group).ranks),
                      static_cast<std::uint64_t>(call.peer),
                      static_cast<std::uint64_t>(call.rank + 1)},
          .name = number_of(call.name),
          .kind = Kind::collective});
  in_flight().communicated(reinterpret_cast<std::uint64_t>(call.stream));
}

thread_local int depth = 0;               // number of open groups (ncclGroupStart)
thread_local std::deque<int> others;      // other ends of the next messages, as ranks of the run
thread_local std::vector<Call> together;  // calls of the open group

bool is(const Call& call, std::string_view name) { return name == call.name; }

// Returns data of the same size that this rank sends in the open group, first of all to the rank
// that `received` comes from, because that rank would send the same. Returns null if there is none.
const void* sent_alike(const Call& received) {
  const void* alike = nullptr;
  for (const Call& call : together) {
    const bool sends =
        is(call, "send") || (is(call, "broadcast") && call.peer == of(call.group).rank);
    if (!sends || call.group != received.group || call.bytes() != received.bytes()) continue;
    alike = call.from;
    if (call.peer == received.peer) break;
  }
  return alike;
}

// Returns the name of the collective that the calls of the open group are together, or null.
// PyTorch makes an all-gather of unequal parts of a broadcast by each rank, and an all-to-all of
// messages to and from each rank.
const char* whole_of_group() {
  const Call& first = together.front();
  std::set<int> peers;
  for (const Call& call : together) {
    if (call.group != first.group || is(call, "broadcast") != is(first, "broadcast") ||
        call.rank >= 0)
      return nullptr;
    if (!is(call, "broadcast") && !is(call, "send") && !is(call, "receive")) return nullptr;
    peers.insert(call.peer);
  }
  if (of(first.group).ranks < 2 || static_cast<int>(peers.size()) + 1 < of(first.group).ranks)
    return nullptr;
  return is(first, "broadcast") ? "all-gather" : "all-to-all";
}

void end_group() {
  if (together.empty()) return;
  for (const Call& call : together)
    if (is(call, "receive") || (is(call, "broadcast") && call.peer != of(call.group).rank))
      move(call.to, sent_alike(call), call.bytes());
  if (const char* const name = whole_of_group()) {
    Call whole = together.front();
    for (const Call& call : together) whole.count = std::max(whole.count, call.count);
    whole.name = name;
    whole.peer = 0;
    write(whole);
  } else {
    const std::uint64_t number = together.size() > 1 ? next_number() : 0;
    for (const Call& call : together) write(call, number);
  }
  together.clear();
}

ncclResult_t collective(const char* name, const void* from, void* to, std::size_t count,
                        ncclDataType_t type, ncclComm_t group, int peer, cudaStream_t stream) {
  Call call{name, from, to, count, bytes_of(type), group, peer, stream};
  if (!others.empty() && (is(call, "send") || is(call, "receive"))) {
    call.rank = others.front();
    others.pop_front();
  }
  if (depth > 0) {
    together.push_back(call);
  } else {
    write(call);
  }
  return ncclSuccess;
}

std::atomic<int> next_ranks{0}, next_rank{0};  // of the next split; 0: unknown

ncclResult_t made(ncclComm_t* group, int ranks, int rank) {
  *group = reinterpret_cast<ncclComm_t>(new RankGroup{ranks, rank});
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  return ncclSuccess;
}
ncclResult_t ncclCommGetUniqueId(ncclComm_t, ncclUniqueId* id) { return ncclGetUniqueId(id); }
ncclResult_t ncclCommInitRank(ncclComm_t* group, int ranks, ncclUniqueId, int rank) {
  return made(group, ranks, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* group, int ranks, ncclUniqueId, int rank,
                                    ncclConfig_t*) {
  return made(group, ranks, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* group, int ranks, int rank, int, ncclUniqueId*,
                                      ncclConfig_t*) {
  return made(group, ranks, rank);
}
// Adds a rank of the whole run to the list of the other ends of this thread's next messages, in
// their order. The recorder calls it. With -1, all that were added before are removed.
void meshwright_stand_in_peer(int rank) {
  if (rank < 0)
    others.clear();
  else
    others.push_back(rank);
}
// Sets the ranks of the next split's part and this rank's number in it. The recorder calls it,
// because a rank gives only its own colour to NCCL.
void meshwright_stand_in_next_split(int ranks, int rank) {
  next_ranks = ranks;
  next_rank = rank;
}
ncclResult_t ncclCommSplit(ncclComm_t group, int color, int /*key*/, ncclComm_t* part,
                           ncclConfig_t*) {
  *part = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  return next_ranks > 0 ? made(part, next_ranks, next_rank)
                        : made(part, of(group).ranks, of(group).rank);
}
ncclResult_t ncclCommDestroy(ncclComm_t group) {
  delete &of(group);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t group) { return ncclCommDestroy(group); }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommCount(ncclComm_t group, int* ranks) {
  *ranks = of(group).ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t group, int* rank) {
  *rank = of(group).rank;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(ncclComm_t, void*, std::size_t, void** handle) {
  *handle = nullptr;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclSuccess; }
ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  *address = allocate(bytes);
  return *address == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}
ncclResult_t ncclMemFree(void* address) {
  release(address);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "error of the stand-in of NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth > 0 && --depth == 0) end_group();
  return ncclSuccess;
}
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void*, ncclDataType_t,
                                      ncclScalarResidence_t, ncclComm_t) {
  *operation = ncclSum;
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t group, cudaStream_t stream) {
  move(to, from, count * bytes_of(type));
  return collective("all-reduce", from, to, count, type, group, 0, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t group, cudaStream_t stream) {
  move(to, from, count * bytes_of(type));
  return collective("broadcast", from, to, count, type, group, root, stream);
}
ncclResult_t ncclBcast(void* data, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t group, cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, group, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t group, cudaStream_t stream) {
  if (of(group).rank == root) move(to, from, count * bytes_of(type));
  return collective("reduce", from, to, count, type, group, root, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t group, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  if (bytes * static_cast<std::size_t>(of(group).ranks) <= kMovedBytes)
    for (int rank = 0; rank < of(group).ranks; ++rank)
      move(static_cast<char*>(to) + bytes * static_cast<std::size_t>(rank), from, bytes);
  return collective("all-gather", from, to, count, type, group, 0, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t group, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  move(to, static_cast<const char*>(from) + bytes * static_cast<std::size_t>(of(group).rank),
       bytes);
  return collective("reduce-scatter", from, to, count, type, group, 0, stream);
}
ncclResult_t ncclAlltoAll(const void* from, void* to, std::size_t count, ncclDataType_t type,
                          ncclComm_t group, cudaStream_t stream) {
  move(to, from, count * bytes_of(type) * static_cast<std::size_t>(of(group).ranks));
  return collective("all-to-all", from, to, count, type, group, 0, stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t group, cudaStream_t stream) {
  return collective("send", from, nullptr, count, type, group, peer, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t group,
                      cudaStream_t stream) {
  return collective("receive", nullptr, to, count, type, group, peer, stream);
}
}
