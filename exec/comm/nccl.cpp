// The world over NCCL: it allocates device memory and makes NCCL's communicators.
#include "exec/comm/nccl.h"

#include <algorithm>

#include "exec/backends/cuda/device/check.h"
#include "exec/comm/device_self.h"
#include "exec/comm/nccl_communicator.h"
#include "exec/comm/watchdog.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// Returns a configuration in which calls are blocking, which means that they return when they are
// issued. Otherwise NCCL would hand each call to a thread of its own. A Watchdog limits calls that
// wait for other ranks.
ncclConfig_t config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  return config;
}

// Most thread blocks of a kernel that sends or receives. It is meant to be enough for a link
// between hosts or half of an NVLink, and few enough that all messages in flight run concurrently
// with each other and with compute.
constexpr int message_blocks = 8;

// Returns the round in which the pair (first, first + direction) of a ring is connected. The pairs
// of one round are disjoint: those that begin with an even member, with an odd one, and, in an odd
// ring, with the last one.
int round_of(int first, int size) { return size % 2 == 1 && first == size - 1 ? 2 : first % 2; }

class NcclWorld : public World {
 public:
  NcclWorld(World& host, StreamSource& streams, double deadline_s, bool windows)
      : host_(host),
        streams_(streams),
        deadline_s_(deadline_s),
        windows_(windows),
        watch_(host.rank(), deadline_s, [&host](int exit_code) { host.abandon(exit_code); }) {
    cuda::check(cudaStreamCreateWithFlags(&set_up_, cudaStreamNonBlocking), "cudaStreamCreate");
    void* word = nullptr;
    cuda::check(cudaMalloc(&word, 16), "cudaMalloc");
    word_ = word;
  }
  ~NcclWorld() override {
    for (const Memory& memory : memory_)
      alone() ? void(cudaFree(memory.address)) : void(ncclMemFree(memory.address));
    cudaFree(word_);
    cudaStreamDestroy(set_up_);
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  void* allocate(std::int64_t bytes) override {
    void* memory = nullptr;
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    if (alone())
      cuda::check(cudaMalloc(&memory, size), "cudaMalloc");
    else
      check_nccl(ncclMemAlloc(&memory, size), "ncclMemAlloc", nullptr);
    memory_.push_back({memory, size});
    cuda::check(cudaMemsetAsync(memory, 0, size, set_up_), "cudaMemsetAsync");
    cuda::check(cudaStreamSynchronize(set_up_), "cudaStreamSynchronize");
    return memory;
  }

  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    if (ranks.size() <= 1) return make_device_self_communicator(streams_);
    const std::string name = "group " + std::string(name_of(kind));
    const Watchdog watchdog(deadline_s_, "making NCCL's " + name, rank());
    auto host = host_.group(kind, ranks);
    std::vector<int> others(ranks.begin(), ranks.end());
    std::erase(others, rank());
    auto all = std::make_unique<NcclLink>(meet(*host), name, others);
    std::vector<NcclCommunicator::Neighbour> neighbours;
    if (kind == GroupKind::pipeline)
      neighbours = make_neighbours(*all, *host, ranks);
    else if (windows_)
      open_windows(*all, *host);
    return std::make_unique<NcclCommunicator>(std::move(host), ranks, std::move(all),
                                              std::move(neighbours), streams_, watch_, deadline_s_);
  }

  World& on_host() override { return host_; }
  bool issues_to_streams() const override { return true; }
  std::int64_t resident_bytes_of_others() const override {
    return host_.resident_bytes_of_others();
  }
  void abandon(int exit_code) override { host_.abandon(exit_code); }

 private:
  struct Memory {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  // Registers each allocation that has the same size on all members as symmetric memory of the
  // group. Sizes may differ between the stages of a pipeline.
  void open_windows(NcclLink& all, Communicator& host) const {
    std::vector<std::size_t> sizes(host.size());
    for (const Memory& memory : memory_) {
      host.all_gather(&memory.bytes, sizes.data(), sizeof memory.bytes);
      const bool alike =
          std::ranges::all_of(sizes, [&](std::size_t bytes) { return bytes == memory.bytes; });
      if (alike) all.open_window(memory.address, memory.bytes);
    }
  }

  // Returns whether this process is the only rank. Then memory is not taken from ncclMemAlloc,
  // which has no use here and may round sizes up by much.
  bool alone() const { return size() == 1; }

  // Makes the NCCL communicator of a group. It is not split from one of the world, because only the
  // group's members call this function.
  static ncclComm_t meet(Communicator& host) {
    ncclUniqueId id{};
    if (host.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    host.broadcast(&id, sizeof id, 0);
    ncclComm_t comm = nullptr;
    ncclConfig_t blocking = config();
    check_nccl(ncclCommInitRankConfig(&comm, host.size(), id, host.rank(), &blocking),
               "ncclCommInitRankConfig", nullptr);
    return comm;
  }

  // Makes the communicators for messages to the neighbours in a ring, by splitting the group's.
  // Every member takes part in each round of splits, with or without a pair in that round. The
  // splits share no resources with the group, because NCCL would run communicators that share
  // resources one at a time.
  std::vector<NcclCommunicator::Neighbour> make_neighbours(NcclLink& all, Communicator& host,
                                                           std::span<const int> ranks) {
    std::vector<NcclCommunicator::Neighbour> made;
    const int size = host.size(), own = host.rank();
    for (const int direction : {1, size - 1}) {
      if (direction == 1 && !made.empty()) break;  // two ranks: both directions are one
      for (int round = 0; round < 2 + size % 2; ++round) {
        const int next = (own + direction) % size, before = (own + size - direction) % size;
        const bool sends = round_of(own, size) == round, receives = round_of(before, size) == round;
        const int color = sends ? own : receives ? before : NCCL_SPLIT_NOCOLOR;
        ncclComm_t comm = nullptr;
        ncclConfig_t few = config();
        few.maxCTAs = message_blocks;
        check_nccl(ncclCommSplit(all.comm(), color, sends ? 0 : 1, &comm, &few), "ncclCommSplit",
                   all.comm());
        if (color == NCCL_SPLIT_NOCOLOR) continue;
        const int peer = sends ? next : before;
        const int others[] = {ranks[peer]};
        made.push_back({peer, sends, std::make_unique<NcclLink>(comm, "group pipeline", others)});
        connect(*made.back().link, sends, others[0]);
      }
    }
    return made;
  }

  // Sends or receives the first message on a new connection. It makes both hosts wait for each
  // other, and in the middle of a step such waits could form a circle. Here all pairs come in one
  // order.
  void connect(NcclLink& link, bool sends, int peer) {
    const InstructionKind kind = sends ? InstructionKind::send : InstructionKind::recv;
    link.run({kind, 1, peer}, set_up_, [&](ncclComm_t comm) {
      return sends ? ncclSend(word_, 1, ncclUint8, 1, comm, set_up_)
                   : ncclRecv(word_, 1, ncclUint8, 0, comm, set_up_);
    });
    cuda::check(cudaStreamSynchronize(set_up_), "cudaStreamSynchronize");
  }

  World& host_;
  StreamSource& streams_;
  double deadline_s_;
  cudaStream_t set_up_ = nullptr;
  void* word_ = nullptr;
  bool windows_;
  std::vector<Memory> memory_;
  NcclWatch watch_;
};

}  // namespace

std::unique_ptr<World> make_nccl_world(World& host, StreamSource& streams, double deadline_s,
                                       bool windows) {
  if (windows && !has_nccl_windows)
    throw InputError(
        "MESHWRIGHT_NCCL_WINDOWS: this build's NCCL has no symmetric memory; it needs "
        "2.27 or newer");
  return std::make_unique<NcclWorld>(host, streams, deadline_s, windows);
}

}  // namespace meshwright::exec
