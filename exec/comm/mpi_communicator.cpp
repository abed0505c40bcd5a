#include "exec/comm/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/backoff.h"
#include "exec/comm/combine.h"

namespace meshwright::exec {

namespace {

constexpr int collective_tag = max_tag + 1;
constexpr std::int64_t message_bytes = 1 << 28;  // the longest single message of an exchange()

// The bytes that go to, and that come from, one member of the group.
struct Outgoing {
  const char* data;
  std::int64_t bytes;
};
struct Incoming {
  char* data;
  std::int64_t bytes;
};
// An exchange with all members of the group: out[i] goes to member i, and in[i] comes from it.
struct Exchange {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  void clear() { out.clear(), in.clear(); }
  void add(const Outgoing& to, const Incoming& from) { out.push_back(to), in.push_back(from); }
};

// Returns the begin of share `part` if `whole` elements are divided into `parts` contiguous, nearly
// equal shares.
std::int64_t share_begin(std::int64_t whole, std::int64_t part, std::int64_t parts) {
  return whole / parts * part + std::min(part, whole % parts);
}

class MpiCommunicator : public Communicator {
 public:
  // `ranks` holds the world ranks of the members.
  MpiCommunicator(MPI_Comm comm, std::span<const int> ranks, std::optional<SharedGroup> shared,
                  const double& deadline_s, std::unique_ptr<TwoLevels> levels)
      : comm_(comm),
        ranks_(ranks.begin(), ranks.end()),
        shared_(std::move(shared)),
        deadline_s_(deadline_s),
        levels_(std::move(levels)) {
    MESHWRIGHT_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    MESHWRIGHT_MPI(MPI_Comm_rank(comm_, &rank_));
    MESHWRIGHT_MPI(MPI_Comm_size(comm_, &size_));
    constexpr std::size_t usually_under_way = 256;
    transfers_.reserve(usually_under_way);
    free_.reserve(usually_under_way);
    progress_ = [this] {
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, collective_tag + 1, comm_, &flag, MPI_STATUS_IGNORE);
    };
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    combine(data, elements, dtype, maximum, -1);
  }

  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
    if (levels_ != nullptr && !flat) return levels_->all_gather(own, all, bytes);
    char* to = static_cast<char*>(all);
    if (const auto peers = meet(own, bytes); !peers.empty()) {
      for (int i = 1; i < size_; ++i) {  // not all read the same peer at once
        const int peer = (rank_ + i) % size_;
        std::memcpy(to + peer * bytes, peers[peer], bytes);
      }
    } else {
      first_.clear();
      for (int peer = 0; peer < size_; ++peer)
        first_.add({static_cast<const char*>(own), bytes}, {to + peer * bytes, bytes});
      exchange(first_);
    }
    if (to + rank_ * bytes != own) std::memmove(to + rank_ * bytes, own, bytes);
    leave();
  }

  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    const std::int64_t part = elements * bytes_of(dtype);
    const char* from = static_cast<const char*>(whole);
    parts_.clear();
    if (const auto peers = meet(whole, part * size_); !peers.empty()) {
      for (const char* peer : peers) parts_.push_back(peer + rank_ * part);
    } else {
      scratch_.resize(part * size_);
      first_.clear();
      for (int peer = 0; peer < size_; ++peer) {
        char* copy = scratch_.data() + peer * part;
        first_.add({from + peer * part, part}, {copy, part});
        parts_.push_back(peer == rank_ ? from + peer * part : copy);
      }
      exchange(first_);
    }
    with_type(dtype, [&]<typename T>() {
      T* to = static_cast<T*>(own);
      combine_typed<T>(parts_, elements, false,
                       [&](const SumOf<T>* sum, std::int64_t at, std::int64_t n) {
                         if (accumulate)
                           add_numbers(sum, n, to + at);
                         else
                           store_numbers(sum, n, to + at);
                       });
    });
    leave();
  }

  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    const char* from = static_cast<const char*>(out);
    char* to = static_cast<char*>(in);
    if (const auto peers = meet(out, bytes * size_); !peers.empty()) {
      for (int i = 1; i < size_; ++i) {
        const int peer = (rank_ + i) % size_;
        std::memcpy(to + peer * bytes, peers[peer] + rank_ * bytes, bytes);
      }
    } else {
      first_.clear();
      for (int peer = 0; peer < size_; ++peer)
        first_.add({from + peer * bytes, bytes}, {to + peer * bytes, bytes});
      exchange(first_);
    }
    std::memcpy(to + rank_ * bytes, from + rank_ * bytes, bytes);
    leave();
  }

  void broadcast(void* data, std::int64_t bytes, int root) override {
    char* at = static_cast<char*>(data);
    if (const auto peers = meet(data, bytes); !peers.empty()) {
      if (rank_ != root) std::memcpy(at, peers[root], bytes);
    } else {
      first_.clear();
      for (int peer = 0; peer < size_; ++peer)
        first_.add({at, rank_ == root ? bytes : 0}, {at, peer == root ? bytes : 0});
      exchange(first_);
    }
    leave();
  }

  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    combine(data, elements, dtype, false, root);
  }

  void barrier() override {
    if (shared_) return shared_->barrier(progress_);
    Transfer transfer;
    MESHWRIGHT_MPI(MPI_Ibarrier(comm_, &transfer.request));
    std::vector<int> others = ranks_;
    std::erase(others, ranks_[rank_]);
    complete(transfer, others);
  }

  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    Transfer sent{MPI_REQUEST_NULL, to, -1};
    MESHWRIGHT_MPI(MPI_Isend(data, checked_bytes(bytes), MPI_BYTE, to, tag, comm_, &sent.request));
    return keep(sent);
  }
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    Transfer received{MPI_REQUEST_NULL, from, bytes};
    MESHWRIGHT_MPI(
        MPI_Irecv(data, checked_bytes(bytes), MPI_BYTE, from, tag, comm_, &received.request));
    return keep(received);
  }
  bool test(Request request) override {
    if (request == 0) return true;
    if (!is_complete(transfers_[request - 1])) return false;
    free_.push_back(request);
    return true;
  }
  void wait(Request request) override {
    if (request == 0) return;
    complete(transfers_[request - 1]);
    free_.push_back(request);
  }

 private:
  // A message in flight to or from a member of the group.
  struct Transfer {
    MPI_Request request = MPI_REQUEST_NULL;
    int peer = 0;
    std::int64_t expected = -1;  // bytes that must come; -1: nothing comes
  };

  std::span<char* const> meet(const void* data, std::int64_t bytes) {
    return shared_ ? shared_->meet(data, bytes, progress_) : std::span<char* const>();
  }
  // With shared memory, waits for all members, so that nobody changes data that a peer may still be
  // reading.
  void leave() {
    if (shared_) shared_->barrier(progress_);
  }

  // Combines the members' data elementwise into the buffer of `root`, or of every member if `root`
  // is -1. By messages, every member gets the result in any case.
  void combine(void* data, std::int64_t elements, Dtype dtype, bool maximum, int root) {
    if (const auto peers = meet(data, elements * bytes_of(dtype)); !peers.empty()) {
      // Every rank combines its share of the elements. No other rank reads or writes that share.
      const std::int64_t first = share_begin(elements, rank_, size_);
      const std::int64_t count = share_begin(elements, rank_ + 1, size_) - first;
      combine_shared(peers, first * bytes_of(dtype), count, dtype, maximum,
                     root < 0 ? peers : peers.subspan(root, 1));
      return leave();
    }
    constexpr std::int64_t round_elements = 1 << 22;  // bounds the scratch memory
    char* at = static_cast<char*>(data);
    for (std::int64_t done = 0; done < elements; done += round_elements)
      reduce_by_messages(at + done * bytes_of(dtype), std::min(round_elements, elements - done),
                         dtype, maximum);
    leave();
  }

  // Combines the elements from byte `begin` of all peers and stores the results at the same offset
  // of all `targets`.
  void combine_shared(std::span<char* const> peers, std::int64_t begin, std::int64_t count,
                      Dtype dtype, bool maximum, std::span<char* const> targets) {
    parts_.clear();
    for (char* peer : peers) parts_.push_back(peer + begin);
    with_type(dtype, [&]<typename T>() {
      combine_typed<T>(
          parts_, count, maximum, [&](const SumOf<T>* sum, std::int64_t at, std::int64_t n) {
            for (char* target : targets)
              store_numbers(sum, n, static_cast<T*>(static_cast<void*>(target + begin)) + at);
          });
    });
  }

  // Performs an all-reduce by messages. Each member gets its share of the elements from all others,
  // combines it, and sends the result to everybody.
  void reduce_by_messages(char* data, std::int64_t elements, Dtype dtype, bool maximum) {
    const auto begin_of = [&](int part) {
      return share_begin(elements, part, size_) * bytes_of(dtype);
    };
    const std::int64_t own_begin = begin_of(rank_), own_bytes = begin_of(rank_ + 1) - own_begin;
    scratch_.resize(own_bytes * size_);
    Exchange &shares = first_, &results = second_;
    shares.clear(), results.clear(), parts_.clear();
    for (int peer = 0; peer < size_; ++peer) {
      char* copy = scratch_.data() + peer * own_bytes;
      const std::int64_t bytes = begin_of(peer + 1) - begin_of(peer);
      shares.add({data + begin_of(peer), bytes}, {copy, own_bytes});
      parts_.push_back(peer == rank_ ? data + own_begin : copy);
      results.add({data + own_begin, own_bytes}, {data + begin_of(peer), bytes});
    }
    exchange(shares);
    with_type(dtype, [&]<typename T>() {
      T* to = static_cast<T*>(static_cast<void*>(data + own_begin));
      combine_typed<T>(parts_, own_bytes / bytes_of(dtype), maximum,
                       [&](const SumOf<T>* sum, std::int64_t at, std::int64_t n) {
                         store_numbers(sum, n, to + at);
                       });
    });
    exchange(results);
  }

  void exchange(const Exchange& with) {
    pending_.clear();
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const Outgoing& to = with.out[peer];
      const Incoming& from = with.in[peer];
      for (std::int64_t at = 0; at < from.bytes; at += message_bytes) {
        Transfer& part = pending_.emplace_back(Transfer{{}, peer, piece(from.bytes - at)});
        MESHWRIGHT_MPI(MPI_Irecv(from.data + at, piece(from.bytes - at), MPI_BYTE, peer,
                                 collective_tag, comm_, &part.request));
      }
      for (std::int64_t at = 0; at < to.bytes; at += message_bytes) {
        Transfer& part = pending_.emplace_back(Transfer{{}, peer, -1});
        MESHWRIGHT_MPI(MPI_Isend(to.data + at, piece(to.bytes - at), MPI_BYTE, peer, collective_tag,
                                 comm_, &part.request));
      }
    }
    for (Transfer& transfer : pending_) complete(transfer);
  }

  static int piece(std::int64_t bytes) { return static_cast<int>(std::min(bytes, message_bytes)); }
  static int checked_bytes(std::int64_t bytes) {
    if (bytes >= std::int64_t{1} << 31)
      throw RunError("a message of 2 GiB or more between stages; use a smaller micro-batch");
    return static_cast<int>(bytes);
  }

  static bool is_complete(Transfer& transfer) {
    int flag = 0, bytes = 0;
    MPI_Status status;
    MESHWRIGHT_MPI(MPI_Test(&transfer.request, &flag, &status));
    if (flag == 0 || transfer.expected < 0) return flag != 0;
    MESHWRIGHT_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
    if (bytes != transfer.expected)
      throw RunError("a message of " + std::to_string(bytes) + " bytes came where " +
                     std::to_string(transfer.expected) + " were expected");
    return true;
  }
  void complete(Transfer& transfer) const { complete(transfer, {&ranks_[transfer.peer], 1}); }
  void complete(Transfer& transfer, std::span<const int> whom) const {
    const std::function<void()> none = [] {};
    Backoff backoff(none, deadline_s_);
    while (!is_complete(transfer))
      if (!backoff.pause()) throw WaitedTooLong(deadline_s_, whom);
  }
  Request keep(const Transfer& transfer) {
    if (free_.empty()) {
      transfers_.push_back(transfer);
      return static_cast<Request>(transfers_.size());
    }
    const Request place = free_.back();
    free_.pop_back();
    transfers_[place - 1] = transfer;
    return place;
  }

  MPI_Comm comm_;
  std::vector<int> ranks_;
  std::optional<SharedGroup> shared_;
  const double& deadline_s_;           // the world's, which may change
  std::unique_ptr<TwoLevels> levels_;  // null unless the group is a grid
  std::function<void()> progress_;     // lets messages move while this rank waits for memory
  int rank_ = 0, size_ = 1;
  // Scratch data of the collective in flight. They are members of the class so that only the first
  // step allocates.
  std::vector<char> scratch_;
  std::vector<const void*> parts_;
  Exchange first_, second_;
  std::vector<Transfer> pending_;
  std::vector<Transfer> transfers_;  // by Request - 1
  std::vector<Request> free_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, std::span<const int> ranks,
                                                    std::optional<SharedGroup> shared,
                                                    const double& deadline_s,
                                                    std::unique_ptr<TwoLevels> levels) {
  return std::make_unique<MpiCommunicator>(comm, ranks, std::move(shared), deadline_s,
                                           std::move(levels));
}

}  // namespace meshwright::exec
