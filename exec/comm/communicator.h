// Collectives and messages of one process group, and the world that makes groups and memory for
// them. The same degrees give the same bits run after run: sums are taken in the order of group
// ranks 0, 1, 2, ..., or by NCCL in an order that depends on sizes and topology (nccl.h). On a
// device they are ordered as its operations are: what was issued before on the stream in use
// happens before, what is issued there later happens after.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "models/core/dtype.h"
#include "models/core/error.h"
#include "models/program/mesh.h"

namespace meshwright {

// Who was waited for did not come before the deadline.
class WaitedTooLong : public RunError {
 public:
  // `whom`: their world ranks.
  WaitedTooLong(double seconds, std::span<const int> whom);
};

// A message under way; 0 is none, and is complete.
using Request = std::int64_t;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // f16 and bf16 (sums in fp32, rounded once), f32 and f64; another type is a RunError.
  virtual void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) = 0;
  // `own` may lie inside `all` at its place, own rank * bytes_per_rank. Over several hosts in two
  // levels, unless `flat`.
  virtual void all_gather(const void* own, void* all, std::int64_t bytes_per_rank,
                          bool flat = false) = 0;
  // own (+)= sum over the ranks of part `rank` of `whole`. `own` may be that part of `whole`; with
  // `accumulate` what that part holds afterwards is open.
  virtual void reduce_scatter(const void* whole, void* own, std::int64_t elements_per_rank,
                              Dtype dtype, bool accumulate) = 0;
  // Part i of `out` to member i; part i of `in` is what it sent here. They do not overlap.
  virtual void all_to_all(const void* out, void* in, std::int64_t bytes_per_rank) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;
  // The sum ends in `data` of member `root`; what the others have in theirs afterwards is open.
  virtual void reduce(void* data, std::int64_t elements, Dtype dtype, int root) = 0;
  // Parts at equal distances, part i at i * distance: in place, every rank has its own part there.
  virtual void gather_apart(void* first, std::int64_t bytes_per_rank, std::int64_t distance) {
    for (int root = 0; root < size(); ++root)
      broadcast(static_cast<char*>(first) + root * distance, bytes_per_rank, root);
  }
  // In place: the sum of part i ends on member i; what else is there afterwards is open.
  virtual void reduce_apart(void* first, std::int64_t elements_per_rank, Dtype dtype,
                            std::int64_t distance) {
    for (int root = 0; root < size(); ++root)
      reduce(static_cast<char*>(first) + root * distance, elements_per_rank, dtype, root);
  }
  virtual void barrier() = 0;

  // Point to point; neither blocks. Tags are at most max_tag, and tell apart whatever is under way
  // between two ranks.
  virtual Request isend(const void* data, std::int64_t bytes, int to, int tag) = 0;
  virtual Request irecv(void* data, std::int64_t bytes, int from, int tag) = 0;
  virtual bool test(Request request) = 0;  // complete? then the request is gone
  virtual void wait(Request request) = 0;
};
// Each rank's `from` becomes `to` of the next one, the last one's that of the first.
void shift_around(Communicator& ring, const void* from, void* to, std::int64_t bytes);
constexpr int max_tag = (1 << 22) - 1;

// All ranks of the job. It outlives the groups and the memory that it made.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Memory that other ranks of this host can read where possible: collectives on it are fastest.
  // Aligned to 256 bytes at least, cleared to 0. Every rank calls it, in the same order; sizes may
  // differ.
  virtual void* allocate(std::int64_t bytes) = 0;

  // The communicator of the group of `kind` which consists of `ranks` (ascending, this one among
  // them). All members call it, kinds in the same order.
  virtual std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) = 0;

  // The same ranks talking from host memory, where `group` works on a device's.
  virtual World& on_host() { return *this; }
  // Whether the groups' calls return before they are done, as a device's operations do.
  virtual bool issues_to_streams() const { return false; }

  // Memory of other ranks that collectives have touched: it counts in this process's VmHWM, but is
  // theirs.
  virtual std::int64_t resident_bytes_of_others() const = 0;

  // How long waits for other ranks may take from now on, in the groups that this world made too.
  virtual void set_deadline([[maybe_unused]] double seconds) {}

  // For a run that has failed: leaves at once, without waiting for the other ranks (whoever started
  // them stops them).
  [[noreturn]] virtual void abandon(int exit_code) = 0;
};

struct WorldOptions {
  bool shared_memory = true;  // false: always exchange messages (for tests, and as a way out)
  double deadline_s = 600;    // the longest that any wait for other ranks may take
  int ranks_per_host = 0;     // above 0: as if a new host began after every so many ranks (tests)
};

// The kinds of this build: `self` (one process) and, where the build found MPI, `mpi`.
struct CommunicatorKind {
  std::string_view name;
  std::unique_ptr<World> (*make)(const WorldOptions& options);
};
std::span<const CommunicatorKind> communicator_kinds();
std::unique_ptr<World> make_world(std::string_view kind, const WorldOptions& options = {});

}  // namespace meshwright
