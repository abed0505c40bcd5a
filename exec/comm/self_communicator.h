// A group of one process on memory of any kind: collectives copy or do nothing, messages go to
// oneself and are copied when both ends have been posted.
#pragma once

#include <vector>

#include "exec/comm/combine.h"
#include "exec/comm/communicator.h"

namespace meshwright::exec {

// `Memory` has `copy(to, from, bytes)`, `add(to, from, elements, dtype)` (to += from), and
// `wait()`. On a device, these are issued to the current stream, and wait() returns when that
// stream is done.
template <typename Memory>
class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(Memory memory) : memory_(memory) { open_.reserve(16); }
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce(void*, std::int64_t, Dtype dtype, bool) override { check_sums(dtype); }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool) override {
    copy(all, own, bytes);
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    check_sums(dtype);
    if (accumulate)
      memory_.add(own, whole, elements, dtype);
    else
      copy(own, whole, elements * bytes_of(dtype));
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override { copy(in, out, bytes); }
  void broadcast(void*, std::int64_t, int) override {}
  void reduce(void*, std::int64_t, Dtype dtype, int) override { check_sums(dtype); }
  void barrier() override { memory_.wait(); }

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

  static void check_sums(Dtype dtype) {
    with_type(dtype, []<typename T>() {});
  }
  void copy(void* to, const void* from, std::int64_t bytes) {
    if (to != from && bytes > 0) memory_.copy(to, from, bytes);
  }

  // Completes the oldest opposite message of this tag, or leaves this one open.
  Request post(const Message& message) {
    ++next_;
    for (auto other = open_.begin(); other != open_.end(); ++other) {
      if (other->tag != message.tag || (other->to == nullptr) == (message.to == nullptr)) continue;
      if (other->bytes != message.bytes)
        throw RunError("a message to oneself is received with another size");
      copy(message.to ? message.to : other->to, message.from ? message.from : other->from,
           message.bytes);
      open_.erase(other);
      return message.request;
    }
    open_.push_back(message);
    return message.request;
  }

  Memory memory_;
  Request next_ = 1;
  std::vector<Message> open_;
};

}  // namespace meshwright::exec
