#include "exec/backends/cuda/optimizer/cuda_updater.h"

#include <map>

#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/cuda/optimizer/optimizer.h"
#include "exec/backends/cuda/optimizer/orthogonal.h"

namespace meshwright::exec::cuda {

namespace {

// The values that the host sets before a step, in the layout with which UpdateScalars begins.
struct OfHost {
  double learning_rate, gradient_clip, of_mean;
  std::int64_t updates_before;
};
static_assert(offsetof(UpdateScalars, step) == offsetof(OfHost, updates_before));

class CudaUpdater : public Updater {
 public:
  CudaUpdater(const StepSettings& training, StreamSource& streams, Products& products)
      : training_(training),
        streams_(streams),
        products_(products),
        norm_parts_(device_memory(sizeof(double) * norm_parts)),
        scalars_(device_memory(sizeof(UpdateScalars))),
        of_host_(pinned_memory(sizeof(OfHost))) {
    const UpdateScalars initial;
    copy_now(scalars_.get(), &initial, sizeof initial);
  }

  void begin_step(std::int64_t step, double learning_rate, double of_mean) override {
    *static_cast<OfHost*>(of_host_.get()) = {learning_rate, training_.gradient_clip, of_mean,
                                             step - 1};
    copy(scalars_.get(), of_host_.get(), sizeof(OfHost));
  }

  // Updates the loss scale, whose state is in the arena, where the host and checkpoints find it.
  void update_loss_scale(const StepSums& sums, float* scale) override {
    void* state = static_cast<char*>(scalars_.get()) + offsetof(UpdateScalars, loss_scale);
    copy(state, sums.scaled, sizeof(ScaledStep));
    cuda::update_loss_scale(training_.settled_loss_scale(), sums.loss, sums.squared_norm, scalars(),
                            scale, stream());
    copy(sums.scaled, state, sizeof(ScaledStep));
  }

  void decide(const StepSums& sums) override {
    prepare_update(training_, sums.loss, sums.squared_norm, scalars(), stream());
  }

  void prepare(Op pass, int bucket, std::span<const OptimizerSegment> segments,
               const OptimizerState& state) override {
    const OfBucket& of = of_bucket(bucket, segments);
    if (pass == Op::lamb_norms)
      lamb_norms(training_, scalars(), of.segments(), state, of.partial.get(), stream());
    else if (pass == Op::adafactor_sums)
      adafactor_sums(scalars(), of.made, state, stream());
    else if (pass == Op::adafactor_norms)
      adafactor_norms(training_, scalars(), of.made, of.segments(), state, of.partial.get(),
                      stream());
    else
      muon_momentum(scalars(), of.segments(), state, stream());
  }

  void update_choice_biases(int bucket, std::span<const ChoiceBias> biases,
                            const OptimizerState& state) override {
    if (biases.empty()) return;
    DeviceMemory& made = choice_biases_[bucket];
    if (made == nullptr) {  // in the first step, which is never captured
      made = device_memory(static_cast<std::int64_t>(biases.size_bytes()));
      copy_now(made.get(), biases.data(), biases.size_bytes());
    }
    cuda::update_choice_biases(training_.router_bias_update_rate, scalars(),
                               static_cast<const ChoiceBias*>(made.get()), std::ssize(biases),
                               state, stream());
  }

  void step(int bucket, std::span<const OptimizerSegment> segments,
            const OptimizerState& state) override {
    if (state.update != nullptr)
      for (const OptimizerSegment& segment : segments)
        orthogonalize(products_, *segment.matrix, state.updates + segment.begin, state.elements,
                      state.update + segment.begin, state.scratch,
                      static_cast<double*>(norm_parts_.get()), stream());
    optimizer_step(training_, scalars(), of_bucket(bucket, segments).segments(), state, stream());
  }

 private:
  struct OfBucket {
    std::vector<DeviceSegment> made;
    DeviceMemory copy, partial;
    DeviceSegments segments() const {
      return segments_at(static_cast<const DeviceSegment*>(copy.get()), made);
    }
  };

  // Returns the segments of a bucket on the device. They are made in the first step, which is never
  // captured.
  const OfBucket& of_bucket(int bucket, std::span<const OptimizerSegment> segments) {
    OfBucket& of = buckets_[bucket];
    if (of.copy != nullptr) return of;
    of.made = device_segments(segments);
    const std::size_t bytes = of.made.size() * sizeof(DeviceSegment);
    of.copy = device_memory(static_cast<std::int64_t>(bytes));
    if (bytes > 0) copy_now(of.copy.get(), of.made.data(), bytes);
    if (measures_parameters(training_.optimizer))
      of.partial = device_memory(lamb_scratch_bytes(of.segments()));
    return of;
  }

  // Copies and waits until the copy is complete. A plain cudaMemcpy may return before that, and
  // these streams do not wait for its stream.
  void copy_now(void* to, const void* from, std::size_t bytes) {
    copy(to, from, bytes);
    check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
  }
  UpdateScalars* scalars() const { return static_cast<UpdateScalars*>(scalars_.get()); }
  cudaStream_t stream() { return static_cast<cudaStream_t>(streams_.current_stream()); }

  const StepSettings& training_;
  StreamSource& streams_;
  Products& products_;
  DeviceMemory norm_parts_;
  DeviceMemory scalars_;
  PinnedMemory of_host_;
  std::map<int, OfBucket> buckets_;
  std::map<int, DeviceMemory> choice_biases_;  // by bucket
};

}  // namespace

std::unique_ptr<Updater> make_updater(const StepSettings& training, StreamSource& streams,
                                      Products& products) {
  return std::make_unique<CudaUpdater>(training, streams, products);
}

}  // namespace meshwright::exec::cuda
