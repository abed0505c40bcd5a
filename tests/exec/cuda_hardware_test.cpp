// Tests GPUs other than the H100 that is emulated by default: with less shared memory for a block,
// without the tensor core instructions that the attention kernels use, and without kernels of this
// build.
#include <utility>

#include "exec/backends/cuda/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda_emulation/emulated.h"
#include "tests/exec/attention_cases.h"
#include "tests/exec/table_backend.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using emulated::OtherHardware;

namespace {

constexpr emulated::Hardware v100{.major = 7, .minor = 0, .shared_bytes = 96 << 10};
constexpr emulated::Hardware t4{.major = 7, .minor = 5, .shared_bytes = 64 << 10};
constexpr emulated::Hardware a10g{.major = 8, .minor = 6, .shared_bytes = 99 << 10};

constexpr Packing separate = Packing::separate, concatenated = Packing::concatenated,
                  per_head = Packing::per_head;

Attributes with_extras(bool unfused) {
  Attributes a;
  a.dropout = 0.25;
  a.dropout_key = 0x123456789ABCDEF0;
  a.relative_buckets = 32;
  a.relative_distance = 128;
  a.scaled_scores = false;
  if (unfused) a.attention = AttentionKernel::unfused;
  return a;
}

}  // namespace

TEST_CASE("attention agrees on a V100", "[exec][cuda]") {
  const OtherHardware hardware(v100);
  const AttentionShapes shapes = GENERATE(AttentionShapes{130, 64, 1, 1, concatenated, true},  //
                                          AttentionShapes{67, 7, 2, 1, concatenated, true},    //
                                          AttentionShapes{67, 96, 1, 1, separate, false},      //
                                          AttentionShapes{67, 128, 1, 1, separate, true},      //
                                          AttentionShapes{35, 256, 1, 1, per_head, true});
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::f16);
  check_attention(attention_case(shapes, {}), dtype);
}

TEST_CASE("attention agrees on a V100 with biases and dropout", "[exec][cuda]") {
  const OtherHardware hardware(v100);
  const auto [head_dim, dtype] =
      GENERATE(std::pair(64, Dtype::f16), std::pair(80, Dtype::bf16), std::pair(96, Dtype::f32));
  const bool unfused = GENERATE(false, true);
  check_attention(attention_case({67, head_dim, 1, 1, separate, false}, with_extras(unfused)),
                  dtype);
}

TEST_CASE("wide heads have smaller tiles where shared memory is short", "[exec][cuda]") {
  const OtherHardware hardware(GENERATE(v100, a10g));
  const auto [head_dim, unfused] = GENERATE(std::pair(128, true), std::pair(256, false));
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::f16);
  Attributes a = with_extras(unfused);
  a.scaled_scores = true;  // larger scores would test nothing
  check_attention(attention_case({66, head_dim, 1, 1, separate, false}, a), dtype);
}

TEST_CASE("attention whose tiles do not fit is refused with what they need", "[exec][cuda]") {
  const OtherHardware hardware(t4);
  TableBackend tables;
  Runner runner(tables, Dtype::f16);
  const Case c = attention_case({4, 128, 1, 1, separate, true}, {});
  CHECK(message_of([&] { play(runner, c); }) ==
        "attention with heads of 128 numbers needs 68 KiB of shared memory for a block; this GPU "
        "has 64");
}

TEST_CASE("a GPU that this build has no kernels for is named", "[exec][cuda]") {
  emulated::Hardware other = v100;
  other.has_kernels = false;
  const OtherHardware hardware(other);
  const TestFolder folder;
  CHECK(message_of([&] { make_cuda_backend({.folder = folder.path()}); }) ==
        "GPU 0 (emulated) is sm_70, and this build has kernels for the emulation: configure with "
        "-DCMAKE_CUDA_ARCHITECTURES=70 (sm_70 needs CUDA 12); starting a kernel: no kernel image "
        "is available for execution on the device");
}
