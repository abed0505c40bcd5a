#include "exec/comm/mpi.h"

#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <vector>

#include "exec/comm/mpi_communicator.h"
#include "exec/comm/self.h"
#include "exec/comm/watchdog.h"

namespace meshwright::exec {

namespace {

// Returns the rank of this process before MPI is initialised, or -1 if it is not known. Open MPI's
// launchers set the variable PMIX_RANK.
int rank_in_environment() {
  const char* text = std::getenv("PMIX_RANK");
  return text == nullptr ? -1 : std::atoi(text);
}

class MpiWorld : public World {
 public:
  explicit MpiWorld(const WorldOptions& options) : deadline_s_(options.deadline_s) {
    const Watchdog watchdog(deadline_s_, "meeting the other ranks", rank_in_environment());
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a rank must not outlive its parent
    std::signal(SIGPIPE, SIG_IGN);     // a call that meets a peer's end fails instead
    int provided = 0;
    MESHWRIGHT_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    MESHWRIGHT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MESHWRIGHT_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    MESHWRIGHT_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size_));
    prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds: sleeps of a Backoff end when they should
    find_hosts(options.ranks_per_host);
    if (!options.shared_memory) return;
    control_ = share(slots_ * static_cast<std::int64_t>(sizeof(SharedSlot)));
  }

  ~MpiWorld() override {
    for (void* memory : private_) std::free(memory);
    // After an error, the peers may never reach the end of the run, and MPI_Finalize would wait for
    // them.
    if (std::uncaught_exceptions() > 0) return;
    const Watchdog watchdog(deadline_s_, "leaving together with the other ranks", rank_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void* allocate(std::int64_t bytes) override {
    if (control_ != nullptr)
      if (void* shared = share(std::max<std::int64_t>(bytes, 1))) return shared;
    constexpr std::size_t alignment = 4096;
    const std::size_t whole = (static_cast<std::size_t>(bytes) / alignment + 1) * alignment;
    void* memory = std::aligned_alloc(alignment, whole);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, whole);
    private_.push_back(memory);
    return memory;
  }

  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    if (ranks.size() <= 1) return make_self_communicator();
    const Watchdog watchdog(deadline_s_, "making a group with other ranks", rank_);
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    MESHWRIGHT_MPI(MPI_Comm_group(MPI_COMM_WORLD, &all));
    MESHWRIGHT_MPI(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members));
    MESHWRIGHT_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, members, static_cast<int>(kind), &comm));
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    std::unique_ptr<TwoLevels> levels;
    if (const auto grid = host_grid(ranks, host_of_, rank_))
      levels =
          std::make_unique<TwoLevels>(*grid, group(kind, grid->inside), group(kind, grid->rail));
    return make_mpi_communicator(comm, ranks, shared_group(comm, ranks), deadline_s_,
                                 std::move(levels));
  }

  std::int64_t resident_bytes_of_others() const override {
    return segments_.resident_bytes_of_others(rank_);
  }

  void set_deadline(double seconds) override { deadline_s_ = seconds; }

  void abandon(int exit_code) override {
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  static constexpr int slots_ = 1 << 14;  // groups of one rank that can share memory

  void find_hosts(int ranks_per_host) {
    if (ranks_per_host > 0)
      MESHWRIGHT_MPI(MPI_Comm_split(MPI_COMM_WORLD, rank_ / ranks_per_host, rank_, &host_));
    else
      MESHWRIGHT_MPI(
          MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host_));
    int first = rank_;  // names the host
    MESHWRIGHT_MPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, host_));
    host_of_.resize(size_);
    MESHWRIGHT_MPI(MPI_Allgather(&first, 1, MPI_INT, host_of_.data(), 1, MPI_INT, MPI_COMM_WORLD));
  }

  // Makes a shared segment on each rank of this host and maps those of the others. Returns the
  // address of this rank's segment, or null on all of these ranks if one of them fails.
  void* share(std::int64_t bytes) {
    const Watchdog watchdog(deadline_s_, "sharing memory with other ranks", rank_);
    SharedSegment own = SharedSegment::create(bytes);
    int host_rank = 0, host_size = 1;
    MESHWRIGHT_MPI(MPI_Comm_rank(host_, &host_rank));
    MESHWRIGHT_MPI(MPI_Comm_size(host_, &host_size));
    struct Entry {
      SegmentName name;
      std::int64_t rank;
    };
    std::vector<Entry> entries(host_size);
    const Entry mine{own.name(), rank_};
    MESHWRIGHT_MPI(
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, entries.data(), sizeof mine, MPI_BYTE, host_));
    std::vector<SharedSegment> by_rank(size_);
    int good = own.base() != nullptr;
    for (const Entry& entry : entries) {
      SharedSegment& segment = by_rank[entry.rank];
      segment = entry.rank == rank_ ? std::move(own) : SharedSegment::open(entry.name);
      good = good && segment.base() != nullptr;
    }
    MESHWRIGHT_MPI(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, host_));
    if (!good) return nullptr;
    for (SharedSegment& segment : by_rank) segment.close_descriptor();
    void* base = by_rank[rank_].base();
    segments_.add(std::move(by_rank));
    return base;
  }

  // Returns the shared-memory side of a group, or none if a member is on another host, if memory is
  // not shared, or if no slot is left. The members agree on a slot that none of them has used.
  std::optional<SharedGroup> shared_group(MPI_Comm comm, std::span<const int> ranks) {
    MESHWRIGHT_MPI(MPI_Allreduce(MPI_IN_PLACE, &next_slot_, 1, MPI_INT, MPI_MAX, comm));
    const SharedPlace place{0, next_slot_ * static_cast<std::int64_t>(sizeof(SharedSlot))};
    if (control_ == nullptr || next_slot_++ >= slots_) return std::nullopt;
    std::vector<SharedSlot*> slots;
    int own = 0;
    for (int rank : ranks) {
      char* slot = segments_.address(rank, place);
      if (slot == nullptr) return std::nullopt;
      if (rank == rank_) own = static_cast<int>(slots.size());
      slots.push_back(static_cast<SharedSlot*>(static_cast<void*>(slot)));
    }
    return SharedGroup(std::move(slots), ranks, own, segments_, deadline_s_);
  }

  double deadline_s_;  // seconds; the groups refer to it
  int rank_ = 0, size_ = 1;
  MPI_Comm host_ = MPI_COMM_NULL;
  std::vector<int> host_of_;  // by rank: the first rank of its host
  SharedSegments segments_;
  void* control_ = nullptr;  // this rank's slots, one per group
  int next_slot_ = 0;
  std::vector<void*> private_;
};

}  // namespace

std::unique_ptr<World> make_mpi_world(const WorldOptions& options) {
  return std::make_unique<MpiWorld>(options);
}

}  // namespace meshwright::exec
