// Compares cuDNN's attention with the CPU backend in double precision, and its time with that of
// this program's kernels. The tests are skipped with a message if the library is missing.
#include "exec/backends/cuda/attention/cudnn_attention.h"

#include <cstdio>

#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/cuda/device/stopwatch.h"
#include "exec/backends/cuda/tables.h"
#include "tests/catch.h"
#include "tests/exec/attention_cases.h"

using namespace meshwright::tests;
using namespace meshwright::exec::cuda;

namespace {

constexpr Packing separate = Packing::separate, concatenated = Packing::concatenated,
                  per_head = Packing::per_head;

bool is_there() {
  const bool there = make_cudnn_attention() != nullptr;
  if (!there) WARN("no cuDNN: not run");
  return there;
}

Attributes cudnns() {
  Attributes a;
  a.attention = AttentionKernel::cudnn;
  return a;
}

// Prints the microseconds of one call of each kernel, on operands of ordinary size.
void print_times(AttentionLibrary& library, const AttentionShapes& shapes, int batch, Op op) {
  Attributes a = attention_case(shapes, cudnns()).attributes;
  a.micro_batch = batch;
  const std::int64_t rows = std::int64_t{batch} * shapes.length, dim = shapes.head_dim;
  const Dtype bf16 = Dtype::bf16;
  const TensorType packed{{rows, (shapes.heads + 2 * shapes.kv_heads) * dim}, bf16},
      result{{rows, shapes.heads * dim}, bf16},
      sums{{std::int64_t{batch} * shapes.heads, shapes.length}, Dtype::f32};
  const bool backward = op == Op::attention_grad;
  const std::vector<TensorType> inputs =
      backward ? std::vector{packed, result, sums, result} : std::vector{packed};
  const std::vector<TensorType> outputs =
      backward ? std::vector{packed} : std::vector{result, sums};
  const OpCall call{op, a, inputs, outputs};
  const std::optional<std::int64_t> bytes = library.workspace_bytes(call);
  REQUIRE(bytes);
  CHECK(*bytes <= gpu_scratch_bytes(call));
  std::vector<DeviceMemory> memory;
  const auto take = [&](std::int64_t size) {
    memory.push_back(device_memory(size));
    fill_device(memory.back().get(), 0x3c, size);
    return memory.back().get();
  };
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const TensorType& type : inputs) in.push_back(take(type.bytes()));
  for (const TensorType& type : outputs) out.push_back(take(type.bytes()));
  OpContext context;
  context.workspace = take(gpu_scratch_bytes(call));
  const cuda::Device device = device_under_test();
  const Stopwatch stopwatch;
  constexpr int times = 20;
  const auto time = [&](const auto& run) {
    return stopwatch.milliseconds(times,
                                  [&](cudaStream_t stream) {
                                    run({call, {in, out}, context, device, {nullptr, 0}, stream});
                                  }) *
           1e3 / times;
  };
  const double ours = time([](const KernelCall& k) { row_of(k.call.op)->run(k); });
  const double theirs = time([&](const KernelCall& k) { library.run(k); });
  std::printf("%-55s ours %8.1f us, cuDNN %8.1f us, %lld bytes\n", text_of_attention(call).c_str(),
              ours, theirs, static_cast<long long>(*bytes));
}

}  // namespace

TEST_CASE("cuDNN's attention agrees", "[exec][cuda][cudnn]") {
  if (!is_there()) return;
  const AttentionShapes shapes = GENERATE(AttentionShapes{64, 64, 2, 2, separate, true},        //
                                          AttentionShapes{17, 8, 4, 2, concatenated, true},     //
                                          AttentionShapes{64, 40, 2, 2, per_head, false},       //
                                          AttentionShapes{130, 64, 2, 1, concatenated, true},   //
                                          AttentionShapes{257, 64, 1, 1, separate, false},      //
                                          AttentionShapes{130, 80, 2, 2, per_head, true},       //
                                          AttentionShapes{130, 96, 2, 2, concatenated, false},  //
                                          AttentionShapes{512, 128, 4, 1, separate, true},      //
                                          AttentionShapes{257, 128, 2, 1, separate, true});
  const Dtype dtype = GENERATE(Dtype::bf16, Dtype::f16);
  TableBackend tables;
  tables.take_attention_of(make_cudnn_attention());
  tables.repeats_bits = false;
  check_attention(attention_case(shapes, cudnns()), dtype, tables);
}

TEST_CASE("cuDNN's attention beside ours", "[exec][cuda][cudnn]") {
  if (!is_there()) return;
  const std::unique_ptr<AttentionLibrary> library = make_cudnn_attention();
  for (const Op op : {Op::attention, Op::attention_grad}) {
    print_times(*library, {1024, 64, 12, 12, concatenated, true}, 32, op);  // GPT-2
    print_times(*library, {1024, 64, 25, 25, concatenated, true}, 8, op);   // GPT-2 XL
    print_times(*library, {4096, 64, 32, 4, concatenated, true}, 4, op);    // Llama 1.1B
    print_times(*library, {4096, 64, 32, 4, concatenated, true}, 1, op);
    print_times(*library, {4096, 128, 32, 8, concatenated, true}, 1, op);  // Llama 3 8B
    print_times(*library, {8192, 128, 32, 8, concatenated, true}, 1, op);
  }
}
