// Tests operations of an eager framework, and of images, on the emulated device. They cover what
// the cases of all operations do not: ranks with their share of the heads, masks, and the types of
// a real graph.
#include "tests/catch.h"
#include "tests/exec/beside_double.h"

using namespace meshwright::tests;

namespace {

Dtype any_type() { return GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16); }

Attributes of_heads(int batch, int length, int heads) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  a.heads = a.kv_heads = heads;
  return a;
}

}  // namespace

TEST_CASE("scores of a rank's heads are masked, biased and dropped as the whole model's",
          "[exec][cuda]") {
  Beside both(any_type());
  both.tensor_rank = 2;
  both.first_sequence = (std::int64_t{1} << 33) + 5;
  const int length = GENERATE(8, 35, 1040);
  const int heads = length > 100 ? 1 : 3, batch = length > 100 ? 1 : 2;
  Attributes a = of_heads(batch, length, heads);
  a.alibi_heads = 3 * heads;
  a.factor = -100;
  a.dropout = 0.3;
  a.dropout_key = 0x123456789abcULL;
  const Shape all{batch * heads, length, length};
  const OpTensor scores = both.random({all}, 1);
  both.run(Op::mask_scores, a, {&scores}, {all});
  const OpTensor documents = both.runner.random({{batch * length}, length, true}, 4);
  for (const bool causal : {true, false}) {
    Attributes packed = a;
    packed.documents = true;
    packed.causal = causal;
    both.run(Op::mask_scores, packed, {&scores, &documents}, {all});
  }
  both.run(Op::add_alibi, a, {&scores}, {all});
  const auto dropped = both.run(Op::drop_probabilities, a, {&scores}, {all});
  both.run(Op::drop_probabilities_grad, a, {&scores}, {all});
  both.first_sequence += 1;
  CHECK(distance(both.run(Op::drop_probabilities, a, {&scores}, {all})[0], dropped[0]) > 0.1);
}

TEST_CASE("relative positions of any distance are in the CPU's buckets", "[exec][cuda]") {
  Beside both(any_type());
  struct Buckets {
    int count, distance;
  };
  const Buckets buckets = GENERATE(Buckets{32, 128}, Buckets{8, 20}, Buckets{4, 3});
  const int length = GENERATE(1, 33, 150);
  Attributes a = of_heads(2, length, 3);
  a.relative_buckets = buckets.count;
  a.relative_distance = buckets.distance;
  a.causal = GENERATE(true, false);
  const Shape all{6, length, length}, shape{buckets.count, 3};
  const OpTensor scores = both.random({all}, 1), table = both.random({shape}, 2);
  both.run(Op::add_relative_bias, a, {&scores, &table}, {all});
  both.run(Op::relative_bias_grad, a, {&scores}, {shape}, 1);
}

TEST_CASE("images become patches on the device, and sequences begin with their row",
          "[exec][cuda]") {
  Beside both(any_type());
  struct Images {
    int across, size, channels;
  };
  const Images images = GENERATE(Images{2, 2, 2}, Images{3, 16, 3}, Images{2, 20, 3});
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = images.across * images.across + 1;
  a.patch_size = images.size;
  a.channels = images.channels;
  const std::int64_t patches = std::int64_t{images.across} * images.across;
  const std::int64_t width = std::int64_t{images.channels} * images.size * images.size;
  const OpTensor pixels = both.random({{2, patches * width}, 256}, 1);
  both.run(Op::image_patches, a, {&pixels}, {{2 * patches, width}});
  const std::int64_t hidden = GENERATE(7, 64, 1032);
  const OpTensor x = both.random({{2 * patches, hidden}}, 2), row = both.random({{hidden}}, 3);
  const Shape whole{2 * patches + 2, hidden};
  both.run(Op::prepend_row, a, {&x, &row}, {whole});
  const OpTensor dy = both.random({whole}, 4);
  both.run(Op::prepend_row_grad, a, {&dy}, {x.type.shape, row.type.shape}, 1);
}

// In a 16-bit run the statistics of norms are fp32, and so are their gradients.
TEST_CASE("rows are scaled by numbers of fp32 whatever their own type", "[exec][cuda]") {
  const Dtype dtype = any_type();
  Beside both(dtype);
  const std::int64_t rows = 70, h = GENERATE(33, 768, 2056);
  const OpTensor x = both.random({{rows, h}}, 1), dy = both.random({{rows, h}}, 2);
  Attributes a;
  a.storage = dtype;
  const auto squares = both.run(Op::mean_of_squares, a, {&x}, {{rows, 1}});
  const auto dots = both.run(Op::row_dots, a, {&x, &dy}, {{rows, 1}});
  CHECK(squares[0].type.dtype == Dtype::f32);
  both.run(Op::scale_rows, a, {&x, &squares[0]}, {{rows, h}});
  both.run(Op::mean_of_squares_grad, a, {&x, &dots[0]}, {{rows, h}});
  const OpTensor logits = both.random({{rows, h}}, 3), targets = both.random({{rows}, 33}, 4);
  const auto logs = both.run(Op::log_softmax, a, {&logits}, {{rows, h}});
  OpTensor d({{rows, h}, Dtype::f32});
  for (std::int64_t i = 0; i < d.elements(); ++i) d.set(i, dy.get(i));
  both.run(Op::log_softmax_grad, a, {&logs[0], &d}, {{rows, h}});
}

TEST_CASE("sums over many rows are made in strips", "[exec][cuda]") {
  Beside both(any_type());
  // There are more rows than 256 strips of 64 have, and an odd number of them.
  const std::int64_t rows = GENERATE(1, 65, 17001), h = GENERATE(3, 40);
  const OpTensor x = both.random({{rows, h}}, 1), dy = both.random({{rows, h}}, 2);
  both.run(Op::scale_columns_grad, {}, {&x, &dy}, {{h}}, 1);
}
