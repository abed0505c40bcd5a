#include "exec/comm/checked.h"

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "models/program/describe.h"
#include "models/program/program_words.h"

namespace meshwright::exec {

namespace {

constexpr int announcement_tag = 0;
constexpr std::int64_t barrier_kind = 100;  // the one collective that no instruction names

// Describes the collective that a rank is about to start. It is plain data, so that it can be sent
// as bytes.
struct Announcement {
  std::int64_t group = 0;     // GroupKind
  std::int64_t sequence = 0;  // collectives of this group before this one
  std::int64_t kind = 0;      // InstructionKind, or barrier_kind
  std::int64_t bytes = 0;
  std::int64_t dtype = -1;   // -1: the collective does not sum
  std::int64_t option = -1;  // root; maximum (1) or sum (0); flat (1) or not (0)
  bool operator==(const Announcement&) const = default;
};

std::string text_of(const Announcement& said) {
  const auto kind = static_cast<InstructionKind>(said.kind);
  std::string text = "is at collective " + std::to_string(said.sequence + 1) + " of group " +
                     std::string(name_of(static_cast<GroupKind>(said.group))) + ", ";
  if (said.kind == barrier_kind) return text + "a barrier";
  text += std::string(name_of(kind)) + " of " + std::to_string(said.bytes) + " bytes";
  if (said.dtype >= 0) text += " " + words_of<Dtype>()[said.dtype];
  if (kind == InstructionKind::all_reduce) text += said.option == 1 ? ", maximum" : ", sum";
  if (kind == InstructionKind::broadcast) text += " from member " + std::to_string(said.option);
  if (kind == InstructionKind::reduce) text += " to member " + std::to_string(said.option);
  return text;
}

// A communicator that announces each collective to the other members. The announcements of all
// groups use one communicator of the whole world. So between two ranks they arrive in the order in
// which they were sent, and a disagreement is found even if the ranks run the collectives of two
// groups in different orders.
class CheckedCommunicator : public Communicator {
 public:
  CheckedCommunicator(std::unique_ptr<Communicator> inner, GroupKind kind,
                      std::span<const int> ranks, Communicator& everybody)
      : inner_(std::move(inner)),
        kind_(kind),
        ranks_(ranks.begin(), ranks.end()),
        everybody_(everybody) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    agree(InstructionKind::all_reduce, elements * bytes_of(dtype), static_cast<int>(dtype),
          maximum ? 1 : 0);
    inner_->all_reduce(data, elements, dtype, maximum);
  }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
    agree(InstructionKind::all_gather, bytes, -1, flat ? 1 : 0);
    inner_->all_gather(own, all, bytes, flat);
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    agree(InstructionKind::reduce_scatter, elements * bytes_of(dtype), static_cast<int>(dtype));
    inner_->reduce_scatter(whole, own, elements, dtype, accumulate);
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    agree(InstructionKind::all_to_all, bytes);
    inner_->all_to_all(out, in, bytes);
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    agree(InstructionKind::broadcast, bytes, -1, root);
    inner_->broadcast(data, bytes, root);
  }
  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    agree(InstructionKind::reduce, elements * bytes_of(dtype), static_cast<int>(dtype), root);
    inner_->reduce(data, elements, dtype, root);
  }
  void barrier() override {
    agree(static_cast<InstructionKind>(barrier_kind), 0);
    inner_->barrier();
  }

  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    return inner_->isend(data, bytes, to, tag);
  }
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    return inner_->irecv(data, bytes, from, tag);
  }
  bool test(Request request) override { return inner_->test(request); }
  void wait(Request request) override { inner_->wait(request); }

 private:
  void agree(InstructionKind kind, std::int64_t bytes, int dtype = -1, int option = -1) {
    own_ = {static_cast<std::int64_t>(kind_),
            sequence_++,
            static_cast<std::int64_t>(kind),
            bytes,
            dtype,
            option};
    said_.assign(ranks_.size(), own_);
    std::vector<Request> sent(ranks_.size(), 0), open(ranks_.size(), 0);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (static_cast<int>(i) == rank()) continue;
      open[i] = everybody_.irecv(&said_[i], sizeof own_, ranks_[i], announcement_tag);
      sent[i] = everybody_.isend(&own_, sizeof own_, ranks_[i], announcement_tag);
    }
    hear_in_any_order(open);
    for (std::size_t i = 0; i < open.size(); ++i) {
      everybody_.wait(open[i]);
      compare(i);
    }
    for (const Request request : sent) everybody_.wait(request);
  }

  // Compares announcements in the order in which they arrive, for up to 5 s, because a disagreement
  // with one rank may be the reason why another is silent. The caller's wait(), which has a
  // deadline, gets the later ones.
  void hear_in_any_order(std::vector<Request>& open) const {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    std::size_t left = open.size() - 1;
    while (left > 0 && std::chrono::steady_clock::now() < patience) {
      for (std::size_t i = 0; i < open.size(); ++i) {
        if (open[i] == 0 || !everybody_.test(open[i])) continue;
        open[i] = 0;
        --left;
        compare(i);
      }
      if (left > 0) std::this_thread::yield();
    }
  }

  void compare(std::size_t member) const {
    if (said_[member] == own_) return;
    throw RunError("the ranks disagree: rank " + std::to_string(everybody_.rank()) + " " +
                   text_of(own_) + "; rank " + std::to_string(ranks_[member]) + " " +
                   text_of(said_[member]));
  }

  std::unique_ptr<Communicator> inner_;
  GroupKind kind_;
  std::vector<int> ranks_;
  Communicator& everybody_;  // for announcements only
  std::int64_t sequence_ = 0;
  Announcement own_;  // after a disagreement, messages in flight still use these
  std::vector<Announcement> said_;
};

class CheckedWorld : public World {
 public:
  explicit CheckedWorld(World& inner) : inner_(inner) {
    std::vector<int> ranks(inner.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    everybody_ = inner.on_host().group(GroupKind::world, ranks);
  }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void* allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    auto members = inner_.group(kind, ranks);
    if (ranks.size() <= 1) return members;
    return std::make_unique<CheckedCommunicator>(std::move(members), kind, ranks, *everybody_);
  }
  World& on_host() override { return inner_.on_host(); }
  std::int64_t resident_bytes_of_others() const override {
    return inner_.resident_bytes_of_others();
  }
  // issues_to_streams() stays false: in captured steps, only the first would be checked.
  void set_deadline(double seconds) override { inner_.set_deadline(seconds); }
  void abandon(int exit_code) override { inner_.abandon(exit_code); }

 private:
  World& inner_;
  std::unique_ptr<Communicator> everybody_;
};

}  // namespace

std::unique_ptr<World> make_checked_world(World& world) {
  return std::make_unique<CheckedWorld>(world);
}

}  // namespace meshwright::exec
