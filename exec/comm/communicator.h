// Collectives and messages of one process group, and the world that makes groups and memory for
// them. The same degrees give the same bits run after run: sums are taken in the order of group
// ranks 0, 1, 2, ..., or by NCCL in an order that depends on sizes and topology (nccl.h). On a
// device, collectives are ordered like other operations: they come after what was issued on the
// current stream before, and before what is issued there later.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "models/core/dtype.h"
#include "models/core/error.h"
#include "models/program/mesh.h"

namespace meshwright::exec {

// Thrown if ranks that this one waited for did not arrive before the deadline.
class WaitedTooLong : public RunError {
 public:
  // `whom` holds the world ranks of the ranks that did not arrive.
  WaitedTooLong(double seconds, std::span<const int> whom);
};

// A message in flight. 0 stands for no message, which is complete.
using Request = std::int64_t;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `data` of every member by the sum over the members, or by their maximum if `maximum`
  // is set. Supports f16 and bf16 (with sums in fp32, rounded once, except by NCCL), f32 and f64.
  // Throws RunError for another type.
  virtual void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) = 0;
  // Gathers `bytes_per_rank` bytes of each member in `all`, in the order of group ranks. `own` may
  // be inside `all`, at offset own rank * bytes_per_rank. Over MPI, a group with several ranks on
  // each of several hosts may gather in two levels (two_levels.h), unless `flat` is set.
  virtual void all_gather(const void* own, void* all, std::int64_t bytes_per_rank,
                          bool flat = false) = 0;
  // Stores in `own` the sum over the members of part `rank` of `whole`, or adds the sum to `own` if
  // `accumulate` is set. Without `accumulate`, `own` may be that part of `whole`. With it, the
  // contents of that part are unspecified afterwards.
  virtual void reduce_scatter(const void* whole, void* own, std::int64_t elements_per_rank,
                              Dtype dtype, bool accumulate) = 0;
  // Sends part i of `out` to member i. Part i of `in` is what member i sent to this rank. The
  // buffers do not overlap.
  virtual void all_to_all(const void* out, void* in, std::int64_t bytes_per_rank) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;
  // Stores the sum in `data` of member `root`. The contents of the other members' `data` are
  // unspecified afterwards.
  virtual void reduce(void* data, std::int64_t elements, Dtype dtype, int root) = 0;
  // Gathers parts in place. Part i begins i * distance bytes after `first`. Every rank already has
  // its own part there.
  virtual void gather_apart(void* first, std::int64_t bytes_per_rank, std::int64_t distance) {
    for (int root = 0; root < size(); ++root)
      broadcast(static_cast<char*>(first) + root * distance, bytes_per_rank, root);
  }
  // Reduces parts in place. Part i begins i * distance bytes after `first`, and member i gets its
  // sum. The contents of the other parts are unspecified afterwards.
  virtual void reduce_apart(void* first, std::int64_t elements_per_rank, Dtype dtype,
                            std::int64_t distance) {
    for (int root = 0; root < size(); ++root)
      reduce(static_cast<char*>(first) + root * distance, elements_per_rank, dtype, root);
  }
  virtual void barrier() = 0;

  // Send or receive a message between two ranks, without blocking. Tags are at most max_tag, and
  // distinguish the messages that are in flight between two ranks. NCCL has no tags (nccl.h).
  virtual Request isend(const void* data, std::int64_t bytes, int to, int tag) = 0;
  virtual Request irecv(void* data, std::int64_t bytes, int from, int tag) = 0;
  // Returns whether the message is complete. If so, the request is gone.
  virtual bool test(Request request) = 0;
  virtual void wait(Request request) = 0;
};
// Sends each rank's `from` to `to` of the next rank, and the last rank's `from` to the first rank.
void shift_around(Communicator& ring, const void* from, void* to, std::int64_t bytes);
constexpr int max_tag = (1 << 22) - 1;

// All ranks of the job. The world must outlive the groups and the memory that it made.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns memory that other ranks of this host can read where possible, on which collectives are
  // fastest. It is cleared to 0, and aligned to at least 64 bytes, on a GPU to at least 256. Every
  // rank calls it, in the same order. Sizes may differ.
  virtual void* allocate(std::int64_t bytes) = 0;

  // Returns the communicator of the group of `kind` that consists of `ranks` (ascending, with this
  // rank among them). All members call it, with kinds in the same order.
  virtual std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) = 0;

  // Returns the world of the same ranks whose groups work on host memory. This may be the world
  // itself.
  virtual World& on_host() { return *this; }
  // Returns whether the groups' calls return before they are complete, as operations of a device
  // do.
  virtual bool issues_to_streams() const { return false; }

  // Returns the bytes of other ranks' memory that are resident in this process, because collectives
  // have touched them. They count in this process's VmHWM although they belong to other ranks.
  virtual std::int64_t resident_bytes_of_others() const = 0;

  // Sets how long waits for other ranks may take from now on, in seconds, also in the groups that
  // this world has already made. The world over MPI obeys it. Other worlds ignore it or pass it on
  // to the world that they wrap.
  virtual void set_deadline([[maybe_unused]] double seconds) {}

  // Ends this process at once after a failure, without waiting for the other ranks. The launcher
  // stops these.
  [[noreturn]] virtual void abandon(int exit_code) = 0;
};

// Returns the group of all ranks. Every rank calls it.
std::unique_ptr<Communicator> group_of_all(World& world);
// Replaces `text` by that of rank 0, on host memory. Every rank of the group calls it.
void share_text(Communicator& all, std::string& text);

struct WorldOptions {
  bool shared_memory = true;  // false: always exchange messages (for tests, and as a way out)
  double deadline_s = 600;    // the longest wait for other ranks, in seconds
  int ranks_per_host = 0;     // above 0: ranks of a pretended host (tests)
};

// A row of the table of communicators in this build: `self` (one process) and, if the build found
// MPI, `mpi`.
struct CommunicatorKind {
  std::string_view name;
  std::unique_ptr<World> (*make)(const WorldOptions& options);
};
std::span<const CommunicatorKind> communicator_kinds();
std::unique_ptr<World> make_world(std::string_view kind, const WorldOptions& options = {});

}  // namespace meshwright::exec
