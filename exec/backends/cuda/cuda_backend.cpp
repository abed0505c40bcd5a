#include "exec/backends/cuda/cuda_backend.h"

#include <mutex>

#include "exec/backends/cuda/attention/attention_library.h"
#include "exec/backends/cuda/device/host_mark.h"
#include "exec/backends/cuda/device/kernel_cache.h"
#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/cuda/device/streams.h"
#include "exec/backends/cuda/fused/fused.h"
#include "exec/backends/cuda/optimizer/cuda_updater.h"
#include "exec/backends/cuda/products/products.h"
#include "exec/backends/cuda/tables.h"
#include "models/core/error.h"
#include "models/program/graph/op_call.h"
#include "models/program/graph/widen.h"
#ifdef MESHWRIGHT_CUDNN
#include "exec/backends/cuda/attention/cudnn_attention.h"
#endif

namespace meshwright::exec {

namespace cuda {

namespace {

constexpr std::int64_t most_cached_bytes = std::int64_t{256} << 20;

cudaDeviceProp properties_of(int index) {
  const int devices = cuda_devices();
  if (index < 0 || index >= devices)
    throw InputError("GPU " + std::to_string(index) + ": this computer has " +
                     std::to_string(devices));
  check(cudaSetDevice(index), "cudaSetDevice");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

Device device_of(const cudaDeviceProp& properties) {
  return {.multiprocessors = properties.multiProcessorCount,
          .major = properties.major,
          .minor = properties.minor,
          .shared_bytes = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin)};
}

class Gpu : public CudaBackend {
 public:
  explicit Gpu(const CudaOptions& options)
      : properties_(properties_of(options.device)),
        cache_(options.folder, most_cached_bytes),
        position_(device_memory(sizeof(long long))),
        position_of_host_(pinned_memory(sizeof(long long))) {
    device_ = device_of(properties_);
    check_machine_code(options.device);
    const std::int64_t scratch = Products::workspace_bytes(device_);
    product_scratch_ = device_memory(scratch);
    products_ = std::make_unique<Products>(
        ProductOptions{.tf32 = options.tf32,
                       .timed = !options.deterministic,
                       .device = properties_.name,
                       .multiprocessors = for_products(options.left_to_collectives)},
        product_scratch_.get(), scratch, cache_);
    device_.products = products_.get();
    fusions_ = std::make_unique<Fusions>(cache_, "sm_" + generation());
    device_.fusions = fusions_.get();
#ifdef MESHWRIGHT_CUDNN
    // cuDNN adds gradients in an order that changes from run to run, so it is not used if every run
    // must give the same bits.
    if (std::unique_ptr<AttentionLibrary> cudnn;
        !options.deterministic && (cudnn = make_cudnn_attention()) != nullptr)
      attention_ = std::make_unique<AttentionChoice>(std::move(cudnn), AttentionChoice::By::time,
                                                     properties_.name, cache_);
    device_.attention = attention_.get();
#endif
  }

  // Returns how many multiprocessors matmuls may use, or 0 if they may use all.
  int for_products(int left_to_collectives) const {
    if (left_to_collectives <= 0) return 0;
    return std::max(properties_.multiProcessorCount - left_to_collectives, 1);
  }

  std::string_view name() const override { return "cuda"; }
  bool supports(Op op, Dtype dtype) const override {
    if (is_8_bit(dtype))
      return computes_in(Precision::fp8) && (is_product(op) || op == Op::transpose);
    return row_of(op) != nullptr &&
           (dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16);
  }
  // Returns whether models can compute in this precision on the GPU. FP8, bf16 and tf32 need tensor
  // cores that have them. No kernel here computes a model in nvfp4 or fp64.
  bool computes_in(Precision precision) const override {
    const int generation = device_.major * 10 + device_.minor;
    if (precision == Precision::nvfp4 || precision == Precision::fp64) return false;
    if (precision == Precision::fp8) return generation >= 89;
    if (precision == Precision::bf16 || precision == Precision::tf32) return generation >= 80;
    return true;
  }
  std::int64_t workspace_bytes(const OpCall& call) const override {
    const Row* row = row_of(call.op);
    return row == nullptr ? 0 : cuda::workspace_of(*row, call, device_);
  }
  std::unique_ptr<Updater> make_updater(const StepSettings& training) override {
    return cuda::make_updater(training, *this, *products_);
  }

  void* current_stream() override { return stream(); }
  Streams* streams() override { return &streams_; }
  StepCapture* capture() override { return &capture_; }
  void wait() override {
    for (const OwnedStream& each : streams_.all())
      check(cudaStreamSynchronize(each.get()), "cudaStreamSynchronize");
  }

  void begin_step(std::int64_t step_position) override {
    *static_cast<long long*>(position_of_host_.get()) = step_position;
    copy(position_.get(), position_of_host_.get(), sizeof(long long));
  }
  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override {
    const Row* row = row_of(call.op);
    MESHWRIGHT_CHECK(row != nullptr, "the backend was asked for an operation it has not");
    row->run({call,
              operands,
              context,
              device_,
              {static_cast<const long long*>(position_.get()),
               context.first_sequence - context.step_position},
              stream()});
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0 || to == from) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
  }

  void* allocate(std::int64_t bytes) override { return device_memory(bytes).release(); }
  // Destructors call deallocate() and deallocate_host(), also after a kernel's fault, which every
  // later call then reports. So these two functions ignore errors.
  void deallocate(void* memory) override { static_cast<void>(cudaFree(memory)); }
  void* allocate_host(std::int64_t bytes) override { return pinned_memory(bytes).release(); }
  void deallocate_host(void* memory) override { static_cast<void>(cudaFreeHost(memory)); }

  std::int64_t used_bytes() const override {
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
    return static_cast<std::int64_t>(all - free);
  }
  bool shares_memory_with_host() const override { return false; }
  void read(void* host, const void* own, std::int64_t bytes) override { move(host, own, bytes); }
  void write(void* own, const void* host, std::int64_t bytes) override { move(own, host, bytes); }

 private:
  cudaStream_t stream() const { return streams_.current(); }

  // Copies on a stream that has no other work, so that the copy does not wait for operations that
  // were issued before. Any thread may call this. Returns when the copy is complete.
  void move(void* to, const void* from, std::int64_t bytes) {
    if (bytes == 0) return;
    const std::lock_guard<std::mutex> alone(apart_mutex_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, apart_.get()), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(apart_.get()), "cudaStreamSynchronize");
  }

  std::string generation() const {
    return std::to_string(device_.major) + std::to_string(device_.minor);
  }

  // Checks that this build has machine code for the device, by starting a kernel. Only the driver
  // knows whether it can use the code of other architectures. Throws InputError if the kernel
  // fails.
  void check_machine_code(int index) {
    try {
      HostMark mark;
      mark.write(1, stream());
      wait();
    } catch (const RunError& error) {
      const bool before_turing = device_.major * 10 + device_.minor < 75;
      throw InputError(
          "GPU " + std::to_string(index) + " (" + properties_.name + ") is sm_" + generation() +
          ", and this build has kernels for " + MESHWRIGHT_CUDA_ARCHITECTURES +
          ": configure with " + "-DCMAKE_CUDA_ARCHITECTURES=" + generation() +
          (before_turing ? " (sm_" + generation() + " needs CUDA 12)" : "") + "; " + error.what());
    }
  }

  const cudaDeviceProp properties_;
  Device device_;
  KernelCache cache_;
  GpuStreams streams_;
  DeviceMemory position_;  // of the current step
  PinnedMemory position_of_host_;
  OwnedStream apart_ = make_stream();
  std::mutex apart_mutex_;
  DeviceMemory product_scratch_;
  std::unique_ptr<Products> products_;
  std::unique_ptr<Fusions> fusions_;
  std::unique_ptr<AttentionChoice> attention_;
  CapturedStep capture_{streams_};  // destroyed first: it starts kernels of members above
};

}  // namespace

}  // namespace cuda

std::unique_ptr<CudaBackend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<cuda::Gpu>(options);
}

int cuda_devices() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

DeviceDescription cuda_device(int index) {
  const cudaDeviceProp properties = cuda::properties_of(index);
  int kilohertz = 0;
  cuda::check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, index),
              "cudaDeviceGetAttribute");
  bool reaches_others = true;
  for (int other = 0; other < cuda_devices(); ++other) {
    int reaches = 1;
    if (other != index)
      cuda::check(cudaDeviceCanAccessPeer(&reaches, index, other), "cudaDeviceCanAccessPeer");
    reaches_others = reaches_others && reaches != 0;
  }
  return {.name = properties.name,
          .generation = properties.major * 10 + properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = static_cast<double>(properties.totalGlobalMem),
          .l2_bytes = static_cast<double>(properties.l2CacheSize),
          .clock_hz = kilohertz * 1e3,
          .workspace_bytes = cuda::Products::workspace_bytes(cuda::device_of(properties)),
          .reaches_others = reaches_others};
}

}  // namespace meshwright::exec
