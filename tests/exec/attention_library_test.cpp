// Which of two kernels attention runs on, with a library that is made up: ours, counted.
#include "exec/backends/cuda/attention/attention_library.h"

#include <fmt/format.h>

#include "exec/backends/cuda/tables.h"
#include "tests/catch.h"
#include "tests/exec/attention_cases.h"
#include "tests/test_folder.h"

using namespace meshwright;
using namespace meshwright::cuda;

namespace {

constexpr std::int64_t scratch = 1 << 16;

// Has heads of 64, and issues its work so many times.
class MadeUp : public AttentionLibrary {
 public:
  MadeUp(int times, int& runs) : times_(times), runs_(runs) {}
  std::string version() const override { return fmt::format("made up {}", times_); }
  std::optional<std::int64_t> workspace_bytes(const OpCall& call) override {
    return call.attributes.head_dim == 64 ? std::optional(scratch) : std::nullopt;
  }
  void run(const KernelCall& k) override {
    ++runs_;
    cuda::Device without = k.device;
    without.attention = nullptr;
    for (int i = 0; i < times_; ++i)
      row_of(k.call.op)->run({k.call, k.operands, k.context, without, k.first_sequence, k.stream});
  }

 private:
  int times_;
  int& runs_;
};

AttentionShapes of_heads(int dim) { return {130, dim, 2, 1, Packing::concatenated, true}; }

}  // namespace

TEST_CASE("attention is a library's where it has a kernel", "[exec][cuda]") {
  int runs = 0;
  TableBackend tables;
  tables.take_attention_of(std::make_unique<MadeUp>(1, runs));
  check_attention(attention_case(of_heads(64), {}), Dtype::bf16, tables);
  CHECK(runs == 4);  // each direction twice
  tables.ran.clear();
  check_attention(attention_case(of_heads(96), {}), Dtype::bf16, tables);
  CHECK(runs == 4);
}

TEST_CASE("kernels of attention are measured once, and the choice is found again", "[exec][cuda]") {
  const TestFolder folder;
  KernelCache cache(folder.path(), 1 << 20);
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  cuda::Device device;
  device.multiprocessors = properties.multiProcessorCount;
  device.major = properties.major;
  device.shared_bytes = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);

  const Attributes a = attention_case(of_heads(64), {}).attributes;
  const std::vector<TensorType> inputs{{{130, 256}, Dtype::bf16}};
  const std::vector<TensorType> outputs{{{130, 128}, Dtype::bf16}, {{2, 130}, Dtype::f32}};
  const OpCall call{Op::attention, a, inputs, outputs};
  const Row& row = *row_of(Op::attention);

  int runs = 0;
  AttentionChoice choice(std::make_unique<MadeUp>(1, runs), AttentionChoice::By::time, "gpu",
                         cache);
  device.attention = &choice;
  const std::int64_t bytes = row.prepare(call, device);
  CHECK((bytes == scratch || bytes == gpu_scratch_bytes(call)));
  CHECK(runs > 0);
  CHECK(row.prepare(call, device) == bytes);
  CHECK(choice.timed() == 1);

  AttentionChoice later(std::make_unique<MadeUp>(1, runs), AttentionChoice::By::time, "gpu", cache);
  device.attention = &later;
  CHECK(row.prepare(call, device) == bytes);
  CHECK(later.timed() == 0);
  // Another version of the library is measured anew.
  AttentionChoice other(std::make_unique<MadeUp>(2, runs), AttentionChoice::By::time, "gpu", cache);
  device.attention = &other;
  row.prepare(call, device);
  CHECK(other.timed() == 1);
}
