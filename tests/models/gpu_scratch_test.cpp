#include "models/graph/gpu_scratch.h"

#include <vector>

#include "tests/catch.h"

using namespace meshwright;

namespace {

std::int64_t scratch_of(Op op, const std::vector<TensorType>& inputs,
                        const std::vector<TensorType>& outputs, const Attributes& attributes = {}) {
  return gpu_scratch_bytes({op, attributes, inputs, outputs});
}

}  // namespace

TEST_CASE("sums over rows have a row in fp32 for each chunk of rows", "[models][graph]") {
  const TensorType bias{{768}, Dtype::f32};
  // 1000 rows in chunks of 32; 16384 in 256 chunks, which are the most.
  CHECK(scratch_of(Op::bias_grad, {{{1000, 768}, Dtype::bf16}}, {bias}) == 32 * 768 * 4);
  CHECK(scratch_of(Op::bias_grad, {{{16384, 768}, Dtype::bf16}}, {bias}) == 256 * 768 * 4);
  // A norm's gradients: of weight and bias. 792 blocks are at work at once, with 21 rows for each.
  const TensorType x{{16384, 768}, Dtype::bf16};
  CHECK(scratch_of(Op::layer_norm_grad, {x, bias, bias, x}, {x, bias, bias}) == 2 * 781 * 768 * 4);
  CHECK(scratch_of(Op::rms_norm_grad, {x, bias, bias, x}, {x, bias}) == 781 * 768 * 4);
}

// As `cuda_gpu_tests "cuDNN's attention beside ours"` prints them on an H200.
TEST_CASE("what cuDNN needs for attention is planned", "[models][graph]") {
  const auto bytes = [](int batch, int length, int heads, int kv_heads, int dim) {
    Attributes a;
    a.attention = AttentionKernel::cudnn;
    a.micro_batch = batch, a.sequence_length = length;
    a.heads = heads, a.kv_heads = kv_heads, a.head_dim = dim;
    a.packing = Packing::concatenated;
    const std::int64_t rows = std::int64_t{batch} * length;
    const std::vector<TensorType> packed{
        {{rows, std::int64_t{heads + 2 * kv_heads} * dim}, Dtype::bf16}};
    return gpu_scratch_bytes({Op::attention_grad, a, packed, packed});
  };
  CHECK(bytes(32, 1024, 12, 12, 64) == 102236672);
  CHECK(bytes(8, 1024, 25, 25, 64) == 53248512);
  CHECK(bytes(4, 4096, 32, 4, 64) == 270533120);
  CHECK(bytes(1, 4096, 32, 4, 64) == 67633664);
  CHECK(bytes(1, 4096, 32, 8, 128) == 134742528);
  CHECK(bytes(1, 8192, 32, 8, 128) == 269484544);
}

TEST_CASE("attention's gradient has two sums for each row of a head", "[models][graph]") {
  Attributes a;
  a.micro_batch = 3, a.heads = 12, a.sequence_length = 1024, a.head_dim = 64;
  const TensorType heads{{3 * 1024, 768}, Dtype::bf16};
  const std::int64_t rows = 3 * 12 * 1024;
  CHECK(scratch_of(Op::attention_grad, {heads, heads, heads}, {heads}, a) == 8 * rows);
  CHECK(scratch_of(Op::attention, {heads, heads, heads}, {heads}, a) == 0);
  a.attention = AttentionKernel::unfused;  // log-sum-exp, from which the probabilities are made
  CHECK(scratch_of(Op::attention, {heads, heads, heads}, {heads}, a) == 4 * rows);
}

TEST_CASE("a product has scratch memory where it is added apart, in its own type",
          "[models][graph]") {
  const TensorType x{{64, 32}, Dtype::bf16}, weight{{48, 32}, Dtype::bf16},
      y{{64, 48}, Dtype::bf16}, sum{{48, 32}, Dtype::f32};
  CHECK(scratch_of(Op::linear, {x, weight}, {y}) == 0);
  Attributes apart;
  apart.accumulate_separately = true;
  CHECK(scratch_of(Op::linear_grad_weight, {y, x}, {sum}, apart) == 48 * 32 * 2);
  CHECK(scratch_of(Op::linear, {x, weight}, {y}, apart) == 0);
  const TensorType rounded_x{{64, 32}, Dtype::e4m3}, rounded_y{{64, 48}, Dtype::e5m2};
  apart.made = Dtype::bf16;
  CHECK(scratch_of(Op::linear_grad_weight, {rounded_y, rounded_x}, {sum}, apart) == 48 * 32 * 2);
}
