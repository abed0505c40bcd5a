#include "tests/exec/ranks_in_turn.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "exec/comm/combine.h"
#include "exec/comm/self.h"
#include "tests/cuda_emulation/fiber.h"

namespace meshwright::tests {

namespace {

// Arguments with which one member of a group calls a collective.
struct Call {
  std::string_view what;
  std::int64_t count = 0;  // bytes or elements
  Dtype dtype = Dtype::f32;
  int detail = 0;  // root; whether it is a maximum or accumulates
  const void* from = nullptr;
  void* to = nullptr;
};

bool agree(const Call& a, const Call& b) {
  return std::tie(a.what, a.count, a.dtype, a.detail) ==
         std::tie(b.what, b.count, b.dtype, b.detail);
}

struct Message {
  int from, to, tag;
  std::int64_t bytes;
  const void* sent;  // null: a receive
  void* received;
  std::shared_ptr<bool> is_done = std::make_shared<bool>(false);
  std::vector<char> buffer = {};  // a copy of the sent data, if it is buffered
};

// State that the members of a group share.
struct Meeting {
  explicit Meeting(std::size_t members) : calls(members) {}
  std::vector<Call> calls;
  std::size_t arrived = 0;
  std::int64_t held = 0;        // number of finished collectives
  std::list<Message> messages;  // messages whose other end has not been posted
};

class Ranks {
 public:
  Ranks(int count, const std::function<void()>& work, RankMessages how)
      : messages(how), work_(work) {
    for (int rank = 0; rank < count; ++rank) ranks_.emplace_back(*this, rank);
  }

  void run() {
    Ranks* const outer = running_;
    running_ = this;
    int idle_rounds = 0;
    for (std::size_t left = ranks_.size(); left > 0;) {
      const std::int64_t moves = moves_;
      for (Rank& rank : ranks_) {
        if (rank.is_done) continue;
        current_ = &rank;
        rank.fiber.resume();
        if (rank.is_done) --left, ++moves_;
      }
      // Some ranks ask whether a message has come and continue, so nothing may move for a while.
      constexpr int patience = 10'000;
      idle_rounds = moves == moves_ ? idle_rounds + 1 : 0;
      if (idle_rounds > patience && complaint_.empty())
        complaint_ = "the ranks wait for each other";
    }
    running_ = outer;
    if (error_) std::rethrow_exception(error_);
  }

  // Pauses the running rank, which waits for another. Throws RunError if another one failed or all
  // ranks wait.
  void pause() {
    emulated::Fiber::pause();
    if (!complaint_.empty()) throw RunError(complaint_);
  }
  void moved() { ++moves_; }  // something happened that others may wait for

  std::shared_ptr<Meeting> meeting(GroupKind kind, std::span<const int> ranks) {
    std::vector<int> members(ranks.begin(), ranks.end());
    const int number = current_->groups[{kind, members}]++;
    std::shared_ptr<Meeting>& made = meetings_[{kind, members, number}];
    if (made == nullptr) made = std::make_shared<Meeting>(ranks.size());
    return made;
  }

  World& world() { return current_->world; }
  const RankMessages messages;  // how messages are delivered
  static Ranks& running() { return *running_; }

 private:
  class TurnsWorld : public World {
   public:
    TurnsWorld(Ranks& ranks, int rank) : ranks_(ranks), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(ranks_.ranks_.size()); }
    void* allocate(std::int64_t bytes) override { return alone_->allocate(bytes); }
    std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override;
    std::int64_t resident_bytes_of_others() const override { return 0; }
    void abandon(int exit_code) override { std::_Exit(exit_code); }

   private:
    Ranks& ranks_;
    int rank_;
    const std::unique_ptr<World> alone_ = make_self_world({});  // all memory is this process's
  };
  struct Rank {
    Rank(Ranks& ranks, int number) : world(ranks, number) {}
    TurnsWorld world;
    emulated::Fiber fiber{[] { running_->live(); }, 8 << 20};
    bool is_done = false;
    std::map<std::tuple<GroupKind, std::vector<int>>, int> groups;  // made by this rank
  };

  [[noreturn]] void live() {
    emulated::Fiber::begin();
    try {
      work_();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      if (complaint_.empty()) complaint_ = "another rank failed";
    }
    current_->is_done = true;
    for (;;) emulated::Fiber::pause();
  }

  inline static Ranks* running_ = nullptr;
  const std::function<void()>& work_;
  std::list<Rank> ranks_;
  Rank* current_ = nullptr;
  std::int64_t moves_ = 0;
  std::string complaint_;  // why waits were given up
  std::exception_ptr error_;
  std::map<std::tuple<GroupKind, std::vector<int>, int>, std::shared_ptr<Meeting>> meetings_;
};

class TurnsCommunicator : public Communicator {
 public:
  TurnsCommunicator(Ranks& ranks, std::shared_ptr<Meeting> meeting, int rank)
      : ranks_(ranks), meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_->calls.size()); }

  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    meet({"all-reduce", elements, dtype, maximum, data, data}, [&](std::span<const Call> calls) {
      combine(calls, 0, elements, dtype, maximum, [&]<typename T>(auto* sum, auto at, auto n) {
        for (const Call& call : calls) store_numbers(sum, n, static_cast<T*>(call.to) + at);
      });
    });
  }

  void all_gather(const void* own, void* all, std::int64_t bytes, bool) override {
    meet({"all-gather", bytes, {}, 0, own, all}, [&](std::span<const Call> calls) {
      for (const Call& to : calls)
        for (std::size_t part = 0; part < calls.size(); ++part)
          copy(at(to.to, part, bytes), calls[part].from, bytes);
    });
  }

  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    meet({"reduce-scatter", elements, dtype, accumulate, whole, own},
         [&](std::span<const Call> calls) {
           for (std::size_t part = 0; part < calls.size(); ++part)
             combine(calls, static_cast<std::int64_t>(part) * elements, elements, dtype, false,
                     [&]<typename T>(auto* sum, auto at, auto n) {
                       T* to = static_cast<T*>(calls[part].to) + at;
                       accumulate ? add_numbers(sum, n, to) : store_numbers(sum, n, to);
                     });
         });
  }

  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    meet({"all-to-all", bytes, {}, 0, out, in}, [&](std::span<const Call> calls) {
      for (std::size_t to = 0; to < calls.size(); ++to)
        for (std::size_t from = 0; from < calls.size(); ++from)
          copy(at(calls[to].to, from, bytes), at(calls[from].from, to, bytes), bytes);
    });
  }

  void broadcast(void* data, std::int64_t bytes, int root) override {
    meet({"broadcast", bytes, {}, root, data, data}, [&](std::span<const Call> calls) {
      for (const Call& call : calls)
        copy(call.to, calls[static_cast<std::size_t>(root)].from, bytes);
    });
  }

  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    meet({"reduce", elements, dtype, root, data, data}, [&](std::span<const Call> calls) {
      void* to = calls[static_cast<std::size_t>(root)].to;
      combine(calls, 0, elements, dtype, false, [&]<typename T>(auto* sum, auto at, auto n) {
        store_numbers(sum, n, static_cast<T*>(to) + at);
      });
    });
  }

  void barrier() override {
    meet({"barrier"}, [](std::span<const Call>) {});
  }

  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    return post({rank_, to, tag, bytes, data, nullptr});
  }
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    return post({from, rank_, tag, bytes, nullptr, data});
  }
  bool test(Request request) override {
    if (request == 0) return true;
    const auto open = open_.find(request);
    if (!*open->second) ranks_.pause();
    if (!*open->second) return false;
    open_.erase(open);
    return true;
  }
  void wait(Request request) override {
    while (!test(request)) {
    }
  }

 private:
  static void* at(void* data, std::size_t part, std::int64_t bytes) {
    return static_cast<char*>(data) + static_cast<std::int64_t>(part) * bytes;
  }
  static const void* at(const void* data, std::size_t part, std::int64_t bytes) {
    return static_cast<const char*>(data) + static_cast<std::int64_t>(part) * bytes;
  }
  static void copy(void* to, const void* from, std::int64_t bytes) {
    if (to != from && bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
  }

  // Calls into.operator()<T>(sums, at, n) with the combined elements from `begin` on of all
  // members' data.
  template <typename Into>
  static void combine(std::span<const Call> calls, std::int64_t begin, std::int64_t elements,
                      Dtype dtype, bool maximum, const Into& into) {
    with_type(dtype, [&]<typename T>() {
      std::vector<const void*> parts;
      for (const Call& call : calls) parts.push_back(static_cast<const T*>(call.from) + begin);
      combine_typed<T>(parts, elements, maximum,
                       [&](const SumOf<T>* sum, std::int64_t at, std::int64_t n) {
                         into.template operator()<T>(sum, at, n);
                       });
    });
  }

  // Waits until all members have come. The last one does the work of all.
  template <typename Work>
  void meet(const Call& call, const Work& work) {
    Meeting& meeting = *meeting_;
    meeting.calls[static_cast<std::size_t>(rank_)] = call;
    if (++meeting.arrived < meeting.calls.size()) {
      for (const std::int64_t held = meeting.held; meeting.held == held;) ranks_.pause();
      return;
    }
    for (const Call& other : meeting.calls)
      if (!agree(other, call))
        throw RunError(std::string("one rank is at ") + std::string(call.what) + ", another at " +
                       std::string(other.what) + ", or they differ in size");
    work(std::span<const Call>(meeting.calls));
    meeting.arrived = 0;
    ++meeting.held;
    ranks_.moved();
  }

  // Delivers the oldest opposite message between these ranks, or leaves this one open.
  Request post(Message message) {
    open_[++last_] = message.is_done;
    std::list<Message>& messages = meeting_->messages;
    for (auto other = messages.begin(); other != messages.end(); ++other) {
      if (std::tie(other->from, other->to, other->tag) !=
              std::tie(message.from, message.to, message.tag) ||
          (other->sent == nullptr) == (message.sent == nullptr))
        continue;
      if (other->bytes != message.bytes)
        throw RunError("a message is received with another size than it was sent with");
      copy(message.sent ? other->received : message.received,
           message.sent ? message.sent : other->sent, message.bytes);
      *other->is_done = *message.is_done = true;
      messages.erase(other);
      ranks_.moved();
      return last_;
    }
    if (ranks_.messages == RankMessages::buffered && message.sent != nullptr) {
      const char* sent = static_cast<const char*>(message.sent);
      message.buffer.assign(sent, sent + message.bytes);
      message.sent = message.buffer.data();
      *message.is_done = true;
    }
    messages.push_back(std::move(message));
    return last_;
  }

  Ranks& ranks_;
  std::shared_ptr<Meeting> meeting_;
  int rank_;
  Request last_ = 0;
  std::map<Request, std::shared_ptr<bool>> open_;
};

std::unique_ptr<Communicator> Ranks::TurnsWorld::group(GroupKind kind, std::span<const int> ranks) {
  if (ranks.size() <= 1) return make_self_communicator();
  const auto place = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  return std::make_unique<TurnsCommunicator>(ranks_, ranks_.meeting(kind, ranks),
                                             static_cast<int>(place));
}

}  // namespace

void run_in_turn(int ranks, const std::function<void()>& work, RankMessages messages) {
  Ranks(ranks, work, messages).run();
}

World& world_in_turn() { return Ranks::running().world(); }

}  // namespace meshwright::tests
