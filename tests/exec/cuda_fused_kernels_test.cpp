// Compares kernels of fused operations on the emulated device, all compiled at once, with the CPU
// backend's fused kernel.
#include <cstring>
#include <memory>
#include <set>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/cuda/fused/fused_source.h"
#include "exec/backends/cuda/fused/kernel_library.h"
#include "exec/backends/cuda/fused/nvrtc.h"
#include "models/program/graph/op_call.h"
#include "tests/catch.h"
#include "tests/exec/device_array.h"
#include "tests/exec/fusion_cases.h"
#include "tests/exec/tested_device.h"
#include "tests/models/plans.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

// Runs the first step of Loop::product_first, after which the fused kernel runs.
void run_product(const Fusion& fusion, std::vector<OpTensor>& operands) {
  const FusedStep& step = fusion.steps[0];
  OpTensor& output = operands[static_cast<std::size_t>(step.outputs[0])];
  if (fusion.start >= 0) output = operands[static_cast<std::size_t>(fusion.start)];
  std::vector<TensorType> in_types;
  std::vector<const void*> in;
  for (int id : step.inputs) {
    in_types.push_back(operands[static_cast<std::size_t>(id)].type);
    in.push_back(operands[static_cast<std::size_t>(id)].storage.data());
  }
  const std::vector<TensorType> out_types = {output.type};
  const std::vector<void*> out = {output.storage.data()};
  const OpCall call{step.op, step.attributes, in_types, out_types};
  const auto cpu = make_cpu_backend(1);
  std::vector<double> scratch(static_cast<std::size_t>(cpu->workspace_bytes(call) / 8 + 8));
  OpContext context = some_place();
  context.workspace = scratch.data();
  cpu->run(call, {in, out}, context);
}

std::string text_of(const std::vector<cuda::FusedKernel>& kernels) {
  std::string text(cuda::fused_prelude());
  for (const cuda::FusedKernel& kernel : kernels) text += kernel.source;
  return text;
}

// Device memory with the bytes of one operand.
class Copy {
 public:
  explicit Copy(OpTensor& tensor) : tensor_(tensor), bytes_(bytes_of_host()) {}
  void* address() const { return bytes_.data(); }
  void to_host() const { std::memcpy(tensor_.storage.data(), bytes_.get().data(), size()); }

 private:
  std::size_t size() const { return static_cast<std::size_t>(tensor_.type.bytes()); }
  std::vector<char> bytes_of_host() const {
    const char* data = tensor_.as<char>();
    return {data, data + size()};
  }
  OpTensor& tensor_;
  DeviceArray<char> bytes_;
};

void run_kernel(const cuda::KernelLibrary& library, const cuda::FusedKernel& kernel,
                std::vector<OpTensor>& operands, bool reversed) {
  std::vector<std::unique_ptr<Copy>> copies;
  std::vector<void*> addresses;
  for (OpTensor& tensor : operands)
    addresses.push_back(copies.emplace_back(std::make_unique<Copy>(tensor))->address());
  const auto address = [&](int id) -> void* { return &addresses[static_cast<std::size_t>(id)]; };
  const DeviceArray<float> partial_sums(
      std::vector<float>(static_cast<std::size_t>(kernel.partial_bytes / 4 + 1)));
  void* partial = partial_sums.data();
  OpContext place = some_place();
  const DeviceArray<long long> of_step({place.first_sequence - 3});
  const long long* address_of_step = of_step.data();
  long long offset = 3;
  std::vector<unsigned long long> keys(kernel.keys.begin(), kernel.keys.end());
  std::vector<void*> arguments;
  for (int id : kernel.operands) arguments.push_back(address(id));
  if (kernel.partial_bytes > 0) arguments.push_back(&partial);
  if (kernel.counts_positions)
    arguments.insert(arguments.end(),
                     {&address_of_step, &offset, &place.tensor_rank, &place.context_rank});
  for (unsigned long long& key : keys) arguments.push_back(&key);
  const cuda::OwnedStream stream = cuda::make_stream();
  reverse_threads(reversed);
  const cudaKernel_t main = library.kernel(kernel.name);
  cuda::allow_shared_bytes(main, kernel.shared_bytes);
  cuda::launch(main, kernel.blocks, kernel.threads, kernel.shared_bytes, arguments, stream.get());
  if (!kernel.sums.empty()) {
    unsigned int overwrites = 0;
    arguments = {&overwrites, &partial};
    for (int id : kernel.sums) arguments.push_back(address(id));
    cuda::launch(library.kernel(kernel.name + "_sums"), kernel.sum_blocks, kernel.sum_threads, 0,
                 arguments, stream.get());
  }
  cuda::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  reverse_threads(false);
  for (const auto& copy : copies) copy->to_host();
}

void compare(const cuda::KernelLibrary& library, const cuda::FusedKernel& kernel,
             const FusionCase& c, std::uint64_t seed) {
  const Fusion& fusion = c.fusion;
  std::vector<OpTensor> expected = random_operands(fusion, seed), found = expected;
  run_fusion(*make_cpu_backend(1), fusion, expected);
  if (fusion.loop == Fusion::Loop::product_first) run_product(fusion, found);
  std::vector<OpTensor> again = found;
  run_kernel(library, kernel, found, false);
  run_kernel(library, kernel, again, true);
  for (std::size_t id = 0; id < found.size(); ++id) {
    INFO("operand " << id);
    CHECK(std::memcmp(found[id].storage.data(), again[id].storage.data(),
                      static_cast<std::size_t>(found[id].type.bytes())) == 0);
    CHECK(distance(found[id], expected[id]) < tolerance_of(fusion));
  }
}

Training with_dropout() {
  Training training;
  training.micro_batch = 3;
  training.sequence_length = 8;
  training.predicted_positions = 2;
  training.dropout = 0.1;
  return training;
}

std::vector<FusionCase> all_cases() {
  std::vector<FusionCase> cases;
  const auto append = [&](std::vector<FusionCase> more, const char* what) {
    for (FusionCase& c : more) cases.push_back({c.name + ", " + what, std::move(c.fusion)});
  };
  // At width 37, columns are processed one at a time. At 1540, a row is a block's.
  append(single_operations({3, 7, 37, Dtype::f32}), "fp32, 37 wide");
  append(single_operations({2, 6, 1540, Dtype::f32}), "fp32, 1540 wide");
  append(single_operations({3, 8, 96, Dtype::f16}), "fp16, 96 wide");
  append(single_operations({2, 6, 1096, Dtype::bf16}), "bf16, 1096 wide");
  // For sums over rows, several warps share the rows, and a strip's next row is read ahead.
  append(single_operations({3, 7, 768, Dtype::bf16}), "bf16, 768 wide");
  append(single_operations({3, 7, 330, Dtype::f32}), "fp32, 330 wide");
  append(epilogues({3, 7, 37, Dtype::f32}), "fp32, 37 wide");
  append(epilogues({3, 7, 96, Dtype::bf16}), "bf16, 96 wide");
  const RowSizes sizes[] = {{3, 8, 96, Dtype::f32},
                            {3, 7, 50, Dtype::f32},
                            {2, 6, 1030, Dtype::f32},
                            {3, 7, 96, Dtype::f16},
                            {3, 7, 39, Dtype::bf16}};
  const auto bodies = static_cast<std::uint64_t>(40 / one_in(4));
  for (std::uint64_t seed = 1; seed <= bodies; ++seed)
    cases.push_back(random_body(sizes[seed % std::size(sizes)], seed));
  // These rows are too long for registers only, those of a warp and those of a block.
  for (const std::uint64_t seed : {23, 24, 36, 1437})
    cases.push_back(random_body({1, 5, 1000, Dtype::f32}, seed));
  for (const std::uint64_t seed : {11, 17, 23})
    cases.push_back(random_body({1, 5, 12288, Dtype::f32}, seed));
  // These fusions are made by the compiler's passes. Those of later layers have the same text.
  std::set<std::string> seen;
  for (const char* family : {"gpt", "llama", "bert", "mpt", "mixtral"})
    for (FusionCase& c : fusions_of(small_model(family), with_dropout()))
      if (seen.insert(cuda::fused_kernel(c.fusion, "k").source).second)
        cases.push_back(std::move(c));
  return cases;
}

}  // namespace

TEST_CASE("CUDA kernels of fused operations compute what the CPU's do", "[exec][cuda]") {
  const std::vector<FusionCase> cases = all_cases();
  std::vector<cuda::FusedKernel> kernels;
  for (std::size_t i = 0; i < cases.size(); ++i)
    kernels.push_back(cuda::fused_kernel(cases[i].fusion, "kernel_" + std::to_string(i)));
  const cuda::KernelLibrary library(cuda::compile_cuda(text_of(kernels), "sm_90").cubin);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].name << '\n' << kernels[i].source);
    compare(library, kernels[i], cases[i], i + 1);
  }
}
