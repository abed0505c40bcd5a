#include "exec/comm/staged.h"

#include <map>
#include <vector>

namespace meshwright::exec {

namespace {

// A buffer in host memory that grows to the largest size that is asked for.
class Staging {
 public:
  explicit Staging(Backend& backend) : backend_(backend) {}
  ~Staging() { release(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::byte* of(std::int64_t bytes) {
    if (bytes > bytes_) {
      release();
      memory_ = static_cast<std::byte*>(backend_.allocate_host(bytes));
      bytes_ = bytes;
    }
    return memory_;
  }

 private:
  void release() {
    if (memory_ != nullptr) backend_.deallocate_host(memory_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  Backend& backend_;
  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

class StagedCommunicator : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, Backend& backend)
      : host_(std::move(host)), backend_(backend), out_(backend), in_(backend) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    in_place(data, elements * bytes_of(dtype),
             [&](void* staged) { host_->all_reduce(staged, elements, dtype, maximum); });
  }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
    std::byte* staged = in_.of(bytes * size());
    std::byte* part = staged + bytes * rank();
    fetch(part, own, bytes);
    host_->all_gather(part, staged, bytes, flat);
    backend_.write(all, staged, bytes * size());
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    const std::int64_t bytes = elements * bytes_of(dtype);
    std::byte* staged = out_.of(bytes * size());
    std::byte* sum = in_.of(bytes);
    fetch(staged, whole, bytes * size());
    if (accumulate) backend_.read(sum, own, bytes);
    host_->reduce_scatter(staged, sum, elements, dtype, accumulate);
    backend_.write(own, sum, bytes);
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    std::byte* from = out_.of(bytes * size());
    std::byte* to = in_.of(bytes * size());
    fetch(from, out, bytes * size());
    host_->all_to_all(from, to, bytes);
    backend_.write(in, to, bytes * size());
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    in_place(data, bytes, [&](void* staged) { host_->broadcast(staged, bytes, root); });
  }
  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    in_place(data, elements * bytes_of(dtype),
             [&](void* staged) { host_->reduce(staged, elements, dtype, root); });
  }
  void barrier() override {
    backend_.wait();
    host_->barrier();
  }

  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    Message message{std::vector<std::byte>(bytes), nullptr};
    fetch(message.staged.data(), data, bytes);
    const Request request = host_->isend(message.staged.data(), bytes, to, tag);
    return keep(request, std::move(message));
  }
  // Waits for the device first, because it may still read or write the memory at `data`.
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    backend_.wait();
    Message message{std::vector<std::byte>(bytes), data};
    const Request request = host_->irecv(message.staged.data(), bytes, from, tag);
    return keep(request, std::move(message));
  }
  bool test(Request request) override {
    if (!host_->test(request)) return false;
    finish(request);
    return true;
  }
  void wait(Request request) override {
    host_->wait(request);
    finish(request);
  }

 private:
  struct Message {
    std::vector<std::byte> staged;
    void* to;  // a receive's place on the device; null for a send
  };

  void fetch(std::byte* to, const void* from, std::int64_t bytes) {
    backend_.wait();
    backend_.read(to, from, bytes);
  }

  template <typename Work>
  void in_place(void* data, std::int64_t bytes, const Work& work) {
    std::byte* staged = in_.of(bytes);
    fetch(staged, data, bytes);
    work(staged);
    backend_.write(data, staged, bytes);
  }

  Request keep(Request request, Message message) {
    if (request != 0) {
      open_[request] = std::move(message);
    } else if (message.to != nullptr) {
      backend_.write(message.to, message.staged.data(),
                     static_cast<std::int64_t>(message.staged.size()));
    }
    return request;
  }

  void finish(Request request) {
    const auto message = open_.find(request);
    if (message == open_.end()) return;
    const std::vector<std::byte>& staged = message->second.staged;
    if (message->second.to != nullptr)
      backend_.write(message->second.to, staged.data(), static_cast<std::int64_t>(staged.size()));
    open_.erase(message);
  }

  std::unique_ptr<Communicator> host_;
  Backend& backend_;
  Staging out_, in_;
  std::map<Request, Message> open_;
};

class StagedWorld : public World {
 public:
  StagedWorld(World& host, Backend& backend) : host_(host), backend_(backend) {}
  ~StagedWorld() override {
    for (void* memory : memory_) backend_.deallocate(memory);
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void* allocate(std::int64_t bytes) override {
    memory_.push_back(backend_.allocate(bytes));
    clear(backend_, memory_.back(), bytes);
    return memory_.back();
  }
  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    return std::make_unique<StagedCommunicator>(host_.group(kind, ranks), backend_);
  }
  World& on_host() override { return host_; }
  std::int64_t resident_bytes_of_others() const override {
    return host_.resident_bytes_of_others();
  }
  void abandon(int exit_code) override { host_.abandon(exit_code); }

 private:
  World& host_;
  Backend& backend_;
  std::vector<void*> memory_;
};

}  // namespace

std::unique_ptr<World> make_staged_world(World& host, Backend& backend) {
  return std::make_unique<StagedWorld>(host, backend);
}

}  // namespace meshwright::exec
