// A device for tests that is as strict as a GPU. Its memory is not the host's: reading it on the
// host crashes. Its streams work late, in an order drawn at random among those that stream order
// and events allow. The kernels are the CPU backend's, with the same bits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"
#include "models/program/graph/op_call.h"

namespace meshwright::tests {

class FarBackend : public Backend, private Streams {
 public:
  explicit FarBackend(std::uint64_t seed);
  ~FarBackend() override;

  std::string_view name() const override { return "far"; }
  bool supports(Op op, Dtype dtype) const override { return near_->supports(op, dtype); }
  bool computes_in(Precision precision) const override { return near_->computes_in(precision); }
  std::int64_t workspace_bytes(const OpCall& call) const override {
    return near_->workspace_bytes(call);
  }
  std::unique_ptr<Updater> make_updater(const StepSettings& training) override;

  void begin_step(std::int64_t) override {}
  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override;
  void copy(void* to, const void* from, std::int64_t bytes) override;
  void wait() override;
  Streams* streams() override { return this; }
  StepCapture* capture() override { return nullptr; }

  void* allocate(std::int64_t bytes) override;
  void deallocate(void* memory) override;
  void* allocate_host(std::int64_t bytes) override { return near_->allocate_host(bytes); }
  void deallocate_host(void* memory) override { near_->deallocate_host(memory); }
  std::int64_t used_bytes() const override { return 0; }
  bool shares_memory_with_host() const override { return false; }
  void read(void* host, const void* own, std::int64_t bytes) override;
  void write(void* own, const void* host, std::int64_t bytes) override;

  // Issues work on the stream in use. Work that talks to other ranks begins in the order in which
  // it was issued, on all streams. `ready` returns whether the work can be done now. It is called
  // repeatedly.
  void issue(std::function<void()> work, bool talks = false, std::function<bool()> ready = {});
  // Returns the address of the memory on the host.
  template <typename T>
  static T* near(T* far) {
    const auto address = reinterpret_cast<std::uintptr_t>(far);
    return reinterpret_cast<T*>(address & ~far_bit);
  }

 private:
  void use(int stream) override { stream_ = stream; }
  void record(int event) override;
  void await(int event) override;
  void wait_for_stream() override { wait(); }
  void begin_stamps() override {}
  int stamp() override { return -1; }
  double stamped(int) override { return 0; }

  static constexpr std::uintptr_t far_bit = std::uintptr_t{1} << 62;  // no such address exists
  struct Item {
    std::function<void()> work;
    std::function<bool()> ready;
    std::int64_t talk = -1;  // its number among work that talks
    int event = -1;          // event to record, or to await if there is no work
    std::int64_t serial = 0;
  };
  struct Event {
    std::int64_t recorded = 0, happened = 0;
  };
  bool can_begin(const Item& item) const;
  void begin_first_of(std::deque<Item>& stream);

  std::unique_ptr<Backend> near_;
  std::mt19937_64 random_;
  int stream_ = 0;
  std::vector<std::deque<Item>> streams_;
  std::vector<Event> events_;
  std::int64_t talks_issued_ = 0, talks_begun_ = 0;
};

// Returns a world with communicators on the device's memory, in the order of its streams, as NCCL's
// are.
std::unique_ptr<World> make_far_world(World& host, FarBackend& backend);

}  // namespace meshwright::tests
