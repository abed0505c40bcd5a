#include "exec/comm/self.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <new>
#include <set>

#include "exec/comm/combine.h"

namespace meshwright {

namespace {

void move_bytes(void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce(void*, std::int64_t, Dtype dtype, bool) override {
    with_type(dtype, []<typename T>() {});
  }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool) override {
    move_bytes(all, own, bytes);
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    with_type(dtype, [&]<typename T>() {
      if (!accumulate) return move_bytes(own, whole, elements * bytes_of(dtype));
      const void* const parts[] = {whole};
      combine_typed<T>(parts, elements, false,
                       [&](const SumOf<T>* sum, std::int64_t at, std::int64_t n) {
                         add_numbers(sum, n, static_cast<T*>(own) + at);
                       });
    });
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    move_bytes(in, out, bytes);
  }
  void broadcast(void*, std::int64_t, int) override {}
  void reduce(void*, std::int64_t, Dtype dtype, int) override {
    with_type(dtype, []<typename T>() {});
  }
  void barrier() override {}

  Request isend(const void* data, std::int64_t bytes, int, int tag) override {
    return post({next_, tag, bytes, data, nullptr});
  }
  Request irecv(void* data, std::int64_t bytes, int, int tag) override {
    return post({next_, tag, bytes, nullptr, data});
  }
  bool test(Request request) override {
    for (const Message& message : open_)
      if (message.request == request) return false;
    return true;
  }
  void wait(Request request) override {
    if (!test(request)) throw RunError("a message to oneself is waited for but never sent");
  }

 private:
  struct Message {
    Request request;
    int tag;
    std::int64_t bytes;
    const void* from;  // a send
    void* to;          // a receive
  };

  // Completes the oldest opposite message of this tag, or leaves this one open.
  Request post(const Message& message) {
    ++next_;
    for (auto other = open_.begin(); other != open_.end(); ++other) {
      if (other->tag != message.tag || (other->to == nullptr) == (message.to == nullptr)) continue;
      if (other->bytes != message.bytes)
        throw RunError("a message to oneself is received with another size");
      move_bytes(message.to ? message.to : other->to, message.from ? message.from : other->from,
                 message.bytes);
      open_.erase(other);
      return message.request;
    }
    open_.push_back(message);
    return message.request;
  }

  Request next_ = 1;
  std::list<Message> open_;
};

class SelfWorld : public World {
 public:
  ~SelfWorld() override {
    for (void* memory : memory_) std::free(memory);
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void* allocate(std::int64_t bytes) override {
    constexpr std::size_t alignment = 4096;
    const std::size_t whole = (static_cast<std::size_t>(bytes) / alignment + 1) * alignment;
    void* memory = std::aligned_alloc(alignment, whole);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, whole);
    memory_.push_back(memory);
    return memory;
  }
  std::unique_ptr<Communicator> group(GroupKind, std::span<const int>) override {
    return make_self_communicator();
  }
  std::int64_t resident_bytes_of_others() const override { return 0; }
  void abandon(int exit_code) override { std::_Exit(exit_code); }

 private:
  std::deque<void*> memory_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

std::unique_ptr<World> make_self_world(const WorldOptions&) {
  return std::make_unique<SelfWorld>();
}

}  // namespace meshwright
