// Tests which of two kernels runs an attention: this program's own, or that of a made-up library,
// whose runs are counted.
#include "exec/backends/cuda/attention/attention_library.h"

#include <fmt/format.h>

#include "exec/backends/cuda/tables.h"
#include "tests/catch.h"
#include "tests/exec/attention_cases.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using namespace meshwright::exec::cuda;

namespace {

// A library of attention kernels for heads of 64 only. It issues its work `times` times, so that it
// takes longer, and asks for `bytes` bytes of scratch memory.
class MadeUp : public AttentionLibrary {
 public:
  MadeUp(int times, int& runs, std::int64_t bytes = 256)
      : times_(times), runs_(runs), bytes_(bytes) {}
  std::string version() const override { return fmt::format("made up {}", times_); }
  std::optional<std::int64_t> workspace_bytes(const OpCall& call) override {
    return call.attributes.head_dim == 64 ? std::optional(bytes_) : std::nullopt;
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
  std::int64_t bytes_;
};

Case of_heads(int dim) {
  Attributes a;
  a.attention = AttentionKernel::cudnn;
  return attention_case({130, dim, 2, 1, Packing::concatenated, true}, a);
}

}  // namespace

TEST_CASE("attention is a library's where it has a kernel", "[exec][cuda]") {
  int runs = 0;
  TableBackend tables;
  tables.take_attention_of(std::make_unique<MadeUp>(1, runs));
  check_attention(of_heads(64), Dtype::bf16, tables);
  CHECK(runs == 4);  // each direction twice
  tables.ran.clear();
  check_attention(of_heads(96), Dtype::bf16, tables);
  CHECK(runs == 4);
  // The job asks for this program's own kernel.
  tables.ran.clear();
  Case other = of_heads(64);
  other.attributes.attention = AttentionKernel::flash2;
  check_attention(other, Dtype::bf16, tables);
  CHECK(runs == 4);
  // The library needs more scratch memory than is planned.
  TableBackend large;
  large.take_attention_of(std::make_unique<MadeUp>(1, runs, 1 << 30));
  check_attention(of_heads(64), Dtype::bf16, large);
  CHECK(runs == 4);
}

TEST_CASE("kernels of attention are measured once, and the choice is found again", "[exec][cuda]") {
  const TestFolder folder;
  KernelCache cache(folder.path(), 1 << 20);
  cuda::Device device = device_under_test();

  const Attributes a = of_heads(64).attributes;
  const std::vector<TensorType> inputs{{{130, 256}, Dtype::bf16}};
  const std::vector<TensorType> outputs{{{130, 128}, Dtype::bf16}, {{2, 130}, Dtype::f32}};
  const OpCall call{Op::attention, a, inputs, outputs};
  const Row& row = *row_of(Op::attention);

  int runs = 0;
  AttentionChoice choice(std::make_unique<MadeUp>(1, runs), AttentionChoice::By::time, "gpu",
                         cache);
  device.attention = &choice;
  CHECK(row.prepare(call, device) == gpu_scratch_bytes(call));
  CHECK(runs > 0);
  row.prepare(call, device);
  CHECK(choice.timed() == 1);

  AttentionChoice later(std::make_unique<MadeUp>(1, runs), AttentionChoice::By::time, "gpu", cache);
  device.attention = &later;
  row.prepare(call, device);
  CHECK(later.timed() == 0);
  // The kernels are measured again with another version of the library.
  AttentionChoice other(std::make_unique<MadeUp>(2, runs), AttentionChoice::By::time, "gpu", cache);
  device.attention = &other;
  row.prepare(call, device);
  CHECK(other.timed() == 1);
}
