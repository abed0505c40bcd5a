#include "tests/exec/table_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/cuda/fused/fused.h"
#include "exec/backends/cuda/products/products.h"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/op_table.h"
#include "tests/exec/tested_device.h"
#include "tests/test_folder.h"

namespace meshwright::tests {

namespace {

constexpr std::size_t alignment = 16;  // kernels may rely on this alignment only
constexpr std::int64_t sequences_of_call = 3;

// Device memory that ends where its bytes end, and begins at an address with the least alignment.
class DeviceCopy {
 public:
  DeviceCopy(const void* host, std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    cuda::check(cudaMalloc(&memory_, bytes_ + alignment), "cudaMalloc");
    cuda::fill_device(memory_, 0xFF, bytes + static_cast<std::int64_t>(alignment));
    if (host != nullptr && bytes > 0) cuda::copy_to_device(address(), host, bytes);
  }
  ~DeviceCopy() { cudaFree(memory_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  void* address() const { return static_cast<char*>(memory_) + alignment; }
  std::vector<char> bytes() const {
    std::vector<char> all(bytes_);
    if (bytes_ > 0)
      cuda::check(cudaMemcpy(all.data(), address(), bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return all;
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
};

// Returns the bytes that the operation writes to each output.
std::vector<std::vector<char>> results_of(const cuda::Row& row, const OpCall& call,
                                          const OpOperands& operands, OpContext context,
                                          const cuda::Device& device,
                                          std::int64_t workspace_bytes) {
  // An output may have an input's address.
  std::map<const void*, std::unique_ptr<DeviceCopy>> copies;
  const auto on_device = [&](const void* host, const TensorType& type) {
    std::unique_ptr<DeviceCopy>& copy = copies[host];
    if (!copy) copy = std::make_unique<DeviceCopy>(host, type.bytes());
    return copy->address();
  };
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    in.push_back(on_device(operands.inputs[i], call.inputs[i]));
  for (std::size_t o = 0; o < call.outputs.size(); ++o)
    out.push_back(on_device(operands.outputs[o], call.outputs[o]));

  const DeviceCopy workspace(nullptr, workspace_bytes);
  context.workspace = workspace.address();
  const long long of_step = context.first_sequence - sequences_of_call;
  const DeviceCopy step(&of_step, sizeof of_step);
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  row.run({call,
           {in, out},
           context,
           device,
           {static_cast<const long long*>(step.address()), sequences_of_call},
           stream});
  cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::vector<std::vector<char>> results;
  for (std::size_t o = 0; o < call.outputs.size(); ++o)
    results.push_back(copies.at(operands.outputs[o])->bytes());
  return results;
}

}  // namespace

cuda::Device device_under_test() {
  cudaDeviceProp properties;
  cuda::check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return {.multiprocessors = properties.multiProcessorCount,
          .major = properties.major,
          .minor = properties.minor,
          .shared_bytes = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin)};
}

// The device as kernels see it, and the objects that kernels share.
struct TableBackend::Device {
  static constexpr std::int64_t workspace_bytes = 1 << 20, cached_bytes = 64 << 20;

  Device() : cache(folder.path(), cached_bytes) {
    cuda::check(cudaMalloc(&workspace, workspace_bytes), "cudaMalloc");
    products.emplace(cuda::ProductOptions{.timed = false}, workspace, workspace_bytes, cache);
    fusions.emplace(cache, "sm_" + std::to_string(shown.major * 10 + shown.minor));
    shown.products = &*products;
    shown.fusions = &*fusions;
  }
  ~Device() { cudaFree(workspace); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  TestFolder folder;
  cuda::KernelCache cache;
  void* workspace = nullptr;
  std::optional<cuda::Products> products;
  std::optional<cuda::Fusions> fusions;
  std::optional<cuda::AttentionChoice> attention;
  cuda::Device shown = device_under_test();
};

void TableBackend::take_attention_of(std::unique_ptr<cuda::AttentionLibrary> library) {
  device_->attention.emplace(std::move(library), cuda::AttentionChoice::By::always, "test",
                             device_->cache);
  device_->shown.attention = &*device_->attention;
}

TableBackend::TableBackend() : cpu_(make_cpu_backend(1)), device_(std::make_unique<Device>()) {}
TableBackend::~TableBackend() = default;

bool TableBackend::supports(Op op, Dtype dtype) const { return cpu_->supports(op, dtype); }
std::int64_t TableBackend::workspace_bytes(const OpCall& call) const {
  return cpu_->workspace_bytes(call);
}
void TableBackend::copy(void* to, const void* from, std::int64_t bytes) {
  cpu_->copy(to, from, bytes);
}

void TableBackend::run(const OpCall& call, const OpOperands& operands, const OpContext& context) {
  const cuda::Row* row = cuda::row_of(call.op);
  if (row == nullptr) return cpu_->run(call, operands, context);
  ran.insert(call.op);
  const std::int64_t bytes = cuda::workspace_of(*row, call, device_->shown),
                     planned = gpu_scratch_bytes(call);
  if (has_planned_scratch && bytes != planned)
    throw std::logic_error(fmt::format("{}: {} bytes of scratch memory, {} are planned",
                                       info(call.op).name, bytes, planned));
  const auto forward = results_of(*row, call, operands, context, device_->shown, bytes);
  reverse_threads(true);
  const auto backward = results_of(*row, call, operands, context, device_->shown, bytes);
  reverse_threads(false);
  if (repeats_bits && forward != backward)
    throw std::logic_error(std::string(info(call.op).name) +
                           ": results depend on the order of threads");
  for (std::size_t o = 0; o < forward.size(); ++o)
    std::copy(forward[o].begin(), forward[o].end(), static_cast<char*>(operands.outputs[o]));
}

}  // namespace meshwright::tests
