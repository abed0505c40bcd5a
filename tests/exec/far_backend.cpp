#include "tests/exec/far_backend.h"

#include <algorithm>
#include <thread>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/core/error.h"
#include "models/program/graph/op_call.h"
#include "models/program/program.h"

namespace meshwright::tests {

namespace {

// An updater that is called on the host immediately and runs on the device later.
class FarUpdater : public Updater {
 public:
  FarUpdater(std::unique_ptr<Updater> near, FarBackend& backend)
      : near_(std::move(near)), backend_(backend) {}

  void begin_step(std::int64_t step, double learning_rate, double of_mean) override {
    backend_.issue([=, this] { near_->begin_step(step, learning_rate, of_mean); });
  }
  void update_loss_scale(const StepSums& sums, float* scale) override {
    backend_.issue([=, this] { near_->update_loss_scale(near(sums), FarBackend::near(scale)); });
  }
  void decide(const StepSums& sums) override {
    backend_.issue([=, this] { near_->decide(near(sums)); });
  }
  void prepare(Op pass, int bucket, std::span<const OptimizerSegment> segments,
               const OptimizerState& state) override {
    backend_.issue([this, pass, bucket, of = near(segments), state] {
      near_->prepare(pass, bucket, of, near(state));
    });
  }
  void update_choice_biases(int bucket, std::span<const ChoiceBias> biases,
                            const OptimizerState& state) override {
    std::vector<ChoiceBias> of(biases.begin(), biases.end());
    for (ChoiceBias& bias : of) bias.counts = FarBackend::near(bias.counts);
    backend_.issue(
        [this, bucket, of, state] { near_->update_choice_biases(bucket, of, near(state)); });
  }
  void step(int bucket, std::span<const OptimizerSegment> segments,
            const OptimizerState& state) override {
    backend_.issue(
        [this, bucket, of = near(segments), state] { near_->step(bucket, of, near(state)); });
  }

 private:
  static StepSums near(const StepSums& far) {
    return {FarBackend::near(far.loss), FarBackend::near(far.squared_norm),
            FarBackend::near(far.scaled)};
  }
  static std::vector<OptimizerSegment> near(std::span<const OptimizerSegment> far) {
    std::vector<OptimizerSegment> segments(far.begin(), far.end());
    for (OptimizerSegment& segment : segments) {
      segment.norms = FarBackend::near(segment.norms);
      segment.factors = FarBackend::near(segment.factors);
      segment.factor_sums = FarBackend::near(segment.factor_sums);
    }
    return segments;
  }
  static OptimizerState near(OptimizerState state) {
    state.weights = FarBackend::near(state.weights);
    state.gradients = FarBackend::near(state.gradients);
    state.first_moment = FarBackend::near(state.first_moment);
    state.second_moment = FarBackend::near(state.second_moment);
    state.working = FarBackend::near(state.working);
    state.update = FarBackend::near(state.update);
    state.updates = FarBackend::near(state.updates);
    state.scratch = FarBackend::near(state.scratch);
    return state;
  }

  std::unique_ptr<Updater> near_;
  FarBackend& backend_;
};

}  // namespace

FarBackend::FarBackend(std::uint64_t seed)
    : near_(make_cpu_backend(1)), random_(seed), streams_(stream_count) {}
FarBackend::~FarBackend() = default;

std::unique_ptr<Updater> FarBackend::make_updater(const StepSettings& training) {
  return std::make_unique<FarUpdater>(near_->make_updater(training), *this);
}

void FarBackend::issue(std::function<void()> work, bool talks, std::function<bool()> ready) {
  Item item{std::move(work), std::move(ready)};
  if (talks) item.talk = talks_issued_++;
  streams_[stream_].push_back(std::move(item));
}

void FarBackend::record(int event) {
  if (event >= std::ssize(events_)) events_.resize(event + 1);
  Item item{[] {}, {}};
  item.event = event;
  item.serial = ++events_[event].recorded;
  streams_[stream_].push_back(std::move(item));
}

void FarBackend::await(int event) {
  Item item;
  item.event = event;
  item.serial = events_.at(event).recorded;
  streams_[stream_].push_back(std::move(item));
}

bool FarBackend::can_begin(const Item& item) const {
  if (item.talk > talks_begun_) return false;
  if (item.ready) return item.ready();
  return item.work || events_[item.event].happened >= item.serial;
}

void FarBackend::begin_first_of(std::deque<Item>& stream) {
  const Item item = std::move(stream.front());
  stream.pop_front();
  if (item.talk >= 0) ++talks_begun_;
  if (item.work) item.work();
  if (item.event >= 0 && item.work) events_[item.event].happened = item.serial;
}

void FarBackend::wait() {
  while (true) {
    std::vector<std::deque<Item>*> able;
    bool any = false, asked = false;
    for (std::deque<Item>& stream : streams_) {
      if (stream.empty()) continue;
      any = true;
      asked = asked || stream.front().ready;
      if (can_begin(stream.front())) able.push_back(&stream);
    }
    if (!any) return;
    if (able.empty()) {
      MESHWRIGHT_CHECK(asked, "streams wait for each other");
      std::this_thread::yield();
      continue;
    }
    begin_first_of(*able[random_() % able.size()]);
  }
}

void FarBackend::run(const OpCall& call, const OpOperands& operands, const OpContext& context) {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const void* input : operands.inputs) inputs.push_back(near(input));
  for (void* output : operands.outputs) outputs.push_back(near(output));
  OpContext here = context;
  here.workspace = near(context.workspace);
  issue([this, op = call.op, attributes = call.attributes, overwrites = call.overwrites, inputs,
         outputs, here, input_types = std::vector(call.inputs.begin(), call.inputs.end()),
         output_types = std::vector(call.outputs.begin(), call.outputs.end())] {
    near_->run({op, attributes, input_types, output_types, overwrites}, {inputs, outputs}, here);
  });
}

void FarBackend::copy(void* to, const void* from, std::int64_t bytes) {
  issue([=, this] { near_->copy(near(to), near(from), bytes); });
}

void* FarBackend::allocate(std::int64_t bytes) {
  void* memory = near_->allocate(bytes);
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(memory) | far_bit);
}

void FarBackend::deallocate(void* memory) { near_->deallocate(near(memory)); }

void FarBackend::read(void* host, const void* own, std::int64_t bytes) {
  near_->copy(host, near(own), bytes);
}

void FarBackend::write(void* own, const void* host, std::int64_t bytes) {
  near_->copy(near(own), host, bytes);
}

namespace {

class FarCommunicator : public Communicator {
 public:
  FarCommunicator(std::unique_ptr<Communicator> host, FarBackend& backend)
      : host_(std::move(host)), backend_(backend) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    talk([=, this] { host_->all_reduce(FarBackend::near(data), elements, dtype, maximum); });
  }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
    talk([=, this] {
      host_->all_gather(FarBackend::near(own), FarBackend::near(all), bytes, flat);
    });
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    talk([=, this] {
      host_->reduce_scatter(FarBackend::near(whole), FarBackend::near(own), elements, dtype,
                            accumulate);
    });
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    talk([=, this] { host_->all_to_all(FarBackend::near(out), FarBackend::near(in), bytes); });
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    talk([=, this] { host_->broadcast(FarBackend::near(data), bytes, root); });
  }
  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    talk([=, this] { host_->reduce(FarBackend::near(data), elements, dtype, root); });
  }
  void barrier() override { host_->barrier(); }

  // The stream goes on when the message has been sent or received.
  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    return message([=, this] { return host_->isend(FarBackend::near(data), bytes, to, tag); });
  }
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    return message([=, this] { return host_->irecv(FarBackend::near(data), bytes, from, tag); });
  }
  bool test(Request) override { return true; }
  void wait(Request) override {}

 private:
  void talk(std::function<void()> work) { backend_.issue(std::move(work), true); }
  Request message(const std::function<Request()>& post) {
    const auto request = std::make_shared<Request>(0);
    talk([=] { *request = post(); });
    backend_.issue([] {}, false,
                   [=, this] {
                     if (*request != 0 && host_->test(*request)) *request = 0;  // it is gone then
                     return *request == 0;
                   });
    return 0;
  }

  std::unique_ptr<Communicator> host_;
  FarBackend& backend_;
};

class FarWorld : public World {
 public:
  FarWorld(World& host, FarBackend& backend) : host_(host), backend_(backend) {}
  ~FarWorld() override {
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
    return std::make_unique<FarCommunicator>(host_.group(kind, ranks), backend_);
  }
  World& on_host() override { return host_; }
  bool issues_to_streams() const override { return true; }
  std::int64_t resident_bytes_of_others() const override { return 0; }
  void abandon(int exit_code) override { host_.abandon(exit_code); }

 private:
  World& host_;
  FarBackend& backend_;
  std::vector<void*> memory_;
};

}  // namespace

std::unique_ptr<World> make_far_world(World& host, FarBackend& backend) {
  return std::make_unique<FarWorld>(host, backend);
}

}  // namespace meshwright::tests
