#include "exec/comm/nccl_communicator.h"

#include <algorithm>
#include <numeric>

#include "exec/backends/cuda/device/add_numbers.h"
#include "exec/backends/cuda/device/check.h"
#include "exec/comm/watchdog.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr ncclDataType_t bytes_type = ncclUint8;

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// Groups the calls that calls() issues, so that NCCL runs them as one operation.
template <typename Calls>
ncclResult_t together(const Calls& calls) {
  if (const ncclResult_t begun = ncclGroupStart(); begun != ncclSuccess) return begun;
  const ncclResult_t issued = calls();
  const ncclResult_t ended = ncclGroupEnd();
  return issued != ncclSuccess ? issued : ended;
}

}  // namespace

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return ncclFloat32;
    case Dtype::f64:
      return ncclFloat64;
    case Dtype::f16:
      return ncclFloat16;
    case Dtype::bf16:
      return ncclBfloat16;
    default:
      throw RunError("sums over ranks are made of floating-point numbers of 16, 32 or 64 bits");
  }
}

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host, std::span<const int> ranks,
                                   std::unique_ptr<NcclLink> all, std::vector<Neighbour> neighbours,
                                   StreamSource& streams, NcclWatch& watch, double deadline_s)
    : host_(std::move(host)),
      ranks_(ranks.begin(), ranks.end()),
      all_(std::move(all)),
      neighbours_(std::move(neighbours)),
      streams_(streams),
      watch_(watch),
      deadline_s_(deadline_s),
      by_neighbours_(!neighbours_.empty()) {
  posted_.reserve(2 * ranks.size());
  watch_.add(*all_);
  for (Neighbour& neighbour : neighbours_) watch_.add(*neighbour.link);
}

NcclCommunicator::~NcclCommunicator() {
  const Watchdog watchdog(deadline_s_, "leaving a group of NCCL", world_rank(rank()));
  for (Neighbour& neighbour : neighbours_) watch_.remove(*neighbour.link);
  watch_.remove(*all_);
  neighbours_.clear();
  all_.reset();
}

void NcclCommunicator::all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) {
  const ncclDataType_t type = nccl_type(dtype);
  if (elements == 0) return;
  all_->run({InstructionKind::all_reduce, elements * bytes_of(dtype), -1, dtype}, stream(),
            [&](ncclComm_t comm) {
              return ncclAllReduce(data, data, count_of(elements), type,
                                   maximum ? ncclMax : ncclSum, comm, stream());
            });
}

// NCCL itself chooses the algorithm over several hosts, so `flat` has no effect.
void NcclCommunicator::all_gather(const void* own, void* all, std::int64_t bytes, bool) {
  if (bytes == 0) return;
  all_->run({InstructionKind::all_gather, bytes * size()}, stream(), [&](ncclComm_t comm) {
    return ncclAllGather(own, all, count_of(bytes), bytes_type, comm, stream());
  });
}

// NCCL's reduce-scatter cannot add to `own`. Therefore `own` is first added to this rank's part of
// `whole`, whose values nobody needs afterwards. This takes no scratch memory.
void NcclCommunicator::reduce_scatter(const void* whole, void* own, std::int64_t elements,
                                      Dtype dtype, bool accumulate) {
  const ncclDataType_t type = nccl_type(dtype);
  if (elements == 0) return;
  const std::int64_t part = elements * bytes_of(dtype);
  if (accumulate)
    cuda::add_numbers(static_cast<char*>(const_cast<void*>(whole)) + rank() * part, own, elements,
                      dtype, stream());
  all_->run(
      {InstructionKind::reduce_scatter, part * size(), -1, dtype}, stream(), [&](ncclComm_t comm) {
        return ncclReduceScatter(whole, own, count_of(elements), type, ncclSum, comm, stream());
      });
}

// Exchanges the parts by sends and receives, as NCCL's own all-to-all does.
void NcclCommunicator::all_to_all(const void* out, void* in, std::int64_t bytes) {
  if (bytes == 0) return;
  const char* from = static_cast<const char*>(out);
  char* to = static_cast<char*>(in);
  all_->run({InstructionKind::all_to_all, bytes * size()}, stream(), [&](ncclComm_t comm) {
    return together([&] {
      ncclResult_t result = ncclSuccess;
      for (int peer = 0; peer < size() && result == ncclSuccess; ++peer) {
        result = ncclSend(from + peer * bytes, count_of(bytes), bytes_type, peer, comm, stream());
        if (result == ncclSuccess)
          result = ncclRecv(to + peer * bytes, count_of(bytes), bytes_type, peer, comm, stream());
      }
      return result;
    });
  });
}

void NcclCommunicator::broadcast(void* data, std::int64_t bytes, int root) {
  if (bytes == 0) return;
  all_->run({InstructionKind::broadcast, bytes, world_rank(root)}, stream(), [&](ncclComm_t comm) {
    return ncclBroadcast(data, data, count_of(bytes), bytes_type, root, comm, stream());
  });
}

void NcclCommunicator::reduce(void* data, std::int64_t elements, Dtype dtype, int root) {
  const ncclDataType_t type = nccl_type(dtype);
  if (elements == 0) return;
  all_->run({InstructionKind::reduce, elements * bytes_of(dtype), world_rank(root), dtype},
            stream(), [&](ncclComm_t comm) {
              return ncclReduce(data, data, count_of(elements), type, ncclSum, root, comm,
                                stream());
            });
}

// Gathers the parts by one broadcast from each member. NCCL runs the broadcasts of a group of calls
// as one kernel.
void NcclCommunicator::gather_apart(void* first, std::int64_t bytes, std::int64_t distance) {
  if (bytes == 0) return;
  all_->run({InstructionKind::all_gather, bytes * size()}, stream(), [&](ncclComm_t comm) {
    return together([&] {
      ncclResult_t result = ncclSuccess;
      for (int root = 0; root < size() && result == ncclSuccess; ++root) {
        char* part = static_cast<char*>(first) + root * distance;
        result = ncclBroadcast(part, part, count_of(bytes), bytes_type, root, comm, stream());
      }
      return result;
    });
  });
}

void NcclCommunicator::reduce_apart(void* first, std::int64_t elements, Dtype dtype,
                                    std::int64_t distance) {
  const ncclDataType_t type = nccl_type(dtype);
  if (elements == 0) return;
  all_->run({InstructionKind::reduce_scatter, elements * bytes_of(dtype) * size(), -1, dtype},
            stream(), [&](ncclComm_t comm) {
              return together([&] {
                ncclResult_t result = ncclSuccess;
                for (int root = 0; root < size() && result == ncclSuccess; ++root) {
                  char* part = static_cast<char*>(first) + root * distance;
                  result = ncclReduce(part, part, count_of(elements), type, ncclSum, root, comm,
                                      stream());
                }
                return result;
              });
            });
}

// Waits for all members. What each of them has issued on its current stream is then complete too.
void NcclCommunicator::barrier() {
  cuda::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  host_->barrier();
}

Request NcclCommunicator::isend(const void* data, std::int64_t bytes, int to, int tag) {
  return post({data, nullptr, bytes, to, tag});
}
Request NcclCommunicator::irecv(void* data, std::int64_t bytes, int from, int tag) {
  return post({nullptr, data, bytes, from, tag});
}

Request NcclCommunicator::post(const Message& message) {
  if (message.bytes == 0) return 0;
  const bool sends = message.from != nullptr;
  if (message.peer == rank()) {
    // NCCL can send to its own rank only if both ends are issued together.
    if (sends)
      own_messages_.send(message.from, message.bytes, message.tag, stream());
    else
      own_messages_.receive(message.to, message.bytes, message.tag, stream());
    return 0;
  }
  if (!by_neighbours_) {
    posted_.push_back(message);
    return 1;
  }
  const InstructionKind kind = sends ? InstructionKind::send : InstructionKind::recv;
  link_to(message.peer, sends)
      .run({kind, message.bytes, world_rank(message.peer)}, stream(), [&](ncclComm_t comm) {
        const std::size_t bytes = count_of(message.bytes);
        return sends ? ncclSend(message.from, bytes, bytes_type, 1, comm, stream())
                     : ncclRecv(message.to, bytes, bytes_type, 0, comm, stream());
      });
  return 0;
}

NcclLink& NcclCommunicator::link_to(int peer, bool sends) {
  const auto found = std::ranges::find_if(neighbours_, [&](const Neighbour& neighbour) {
    return neighbour.peer == peer && neighbour.sends == sends;
  });
  if (found == neighbours_.end())
    throw RunError("a message between ranks " + std::to_string(world_rank(rank())) + " and " +
                   std::to_string(world_rank(peer)) + ", which are no neighbours in the pipeline");
  return *found->link;
}

bool NcclCommunicator::test(Request request) {
  wait(request);
  return true;
}

void NcclCommunicator::wait(Request request) {
  if (request == 0 || posted_.empty()) return;
  const auto add = [](std::int64_t sum, const Message& message) { return sum + message.bytes; };
  const std::int64_t bytes = std::accumulate(posted_.begin(), posted_.end(), std::int64_t{0}, add);
  all_->run({InstructionKind::ring_shift, bytes}, stream(), [&](ncclComm_t comm) {
    return together([&] {
      ncclResult_t result = ncclSuccess;
      for (const Message& message : posted_) {
        if (result != ncclSuccess) break;
        const std::size_t size = count_of(message.bytes);
        result = message.from != nullptr
                     ? ncclSend(message.from, size, bytes_type, message.peer, comm, stream())
                     : ncclRecv(message.to, size, bytes_type, message.peer, comm, stream());
      }
      return result;
    });
  });
  posted_.clear();
}

}  // namespace meshwright::exec
