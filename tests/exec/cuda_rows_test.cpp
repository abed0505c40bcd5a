// Tests CUDA kernels that work row by row: widths around their limits, and ranks of every kind of
// group.
#include "exec/backends/cuda/tables.h"
#include "tests/catch.h"
#include "tests/exec/beside_double.h"

using namespace meshwright::tests;

namespace {

const std::vector<Dtype> all_types = {Dtype::f32, Dtype::bf16, Dtype::f16};

Attributes sequences(int batch, int length) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  return a;
}

OpTensor integers(const Shape& shape, const std::vector<int>& values) {
  OpTensor tensor({shape, Dtype::i32});
  for (std::size_t i = 0; i < values.size(); ++i)
    tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

}  // namespace

TEST_CASE("CUDA norms of rows of any width", "[exec][cuda]") {
  const Dtype dtype = GENERATE(from_range(all_types));
  Beside beside(dtype);
  // Covers widths that one warp holds, one of each block size, and widths that no block holds. The
  // last two are not multiples of 16 bytes.
  for (const std::int64_t width : {8, 256, 264, 1000, 1032, 2056, 4104, 8192, 8200, 77, 1030}) {
    const std::int64_t rows = width < 1000 ? 50 : 3;
    INFO(rows << " rows of " << width);
    const OpTensor x = beside.random({{rows, width}}, 1), weight = beside.random({{width}}, 2),
                   bias = beside.random({{width}}, 3), dy = beside.random({{rows, width}}, 4);
    const Shape shape{rows, width}, of_weight{width};
    const Attributes a;
    const auto layer = beside.run(Op::layer_norm, a, {&x, &weight, &bias}, {shape, {rows, 2}});
    beside.run(Op::layer_norm_grad, a, {&x, &weight, &layer[1], &dy}, {shape, of_weight, of_weight},
               2);
    const auto rms = beside.run(Op::rms_norm, a, {&x, &weight}, {shape, {rows, 1}});
    beside.run(Op::rms_norm_grad, a, {&x, &weight, &rms[1], &dy}, {shape, of_weight}, 1);
  }
}

TEST_CASE("CUDA norms over rows in parts", "[exec][cuda]") {
  const Dtype dtype = GENERATE(from_range(all_types));
  const std::int64_t width = GENERATE(72, 300, 13), rows = 40;
  const bool rms = GENERATE(false, true);
  Beside beside(dtype);
  Attributes a;
  a.tensor_degree = 3;
  a.rms_norm = rms;
  const Shape shape{rows, width}, of_weight{width};
  OpTensor stats({{3 * 2, rows}, Dtype::f32}), sums({{2, rows}, Dtype::f32});
  for (int rank = 0; rank < 3; ++rank) {
    const OpTensor x = beside.random({shape}, 10 + rank);
    const auto own = beside.run(Op::norm_stats, a, {&x}, {{2, rows}})[0];
    for (std::int64_t i = 0; i < own.elements(); ++i)
      stats.set(rank * own.elements() + i, own.get(i));
  }
  const OpTensor x = beside.random({shape}, 11), weight = beside.random({of_weight}, 2),
                 bias = beside.random({of_weight}, 3), dy = beside.random({shape}, 4);
  const Shape of_saved{rows, rms ? 1 : 2};
  std::vector<const OpTensor*> inputs = {&x, &weight, &stats};
  if (!rms) inputs = {&x, &weight, &bias, &stats};
  const auto y = beside.run(Op::norm_parts, a, inputs, {shape, of_saved});
  std::vector<Shape> outputs = {{2, rows}, of_weight};
  if (!rms) outputs.push_back(of_weight);
  const auto own_sums =
      beside.run(Op::norm_parts_sums, a, {&x, &weight, &y[1], &dy}, outputs, outputs.size() - 1)[0];
  for (std::int64_t i = 0; i < sums.elements(); ++i) sums.set(i, 3 * own_sums.get(i));
  beside.run(Op::norm_parts_grad, a, {&x, &weight, &y[1], &dy, &sums}, {shape});
}

TEST_CASE("CUDA dropout is that of the CPU on every rank", "[exec][cuda]") {
  const std::int64_t width = GENERATE(24, 26, 7);
  Beside beside(GENERATE(from_range(all_types)));
  Attributes a = sequences(3, 8);
  a.dropout = 0.4;
  a.dropout_key = 0x123456789abcdefull;
  beside.first_sequence = (std::int64_t{1} << 33) + 5;
  const OpTensor x = beside.random({{24, width}}, 1);
  beside.run(Op::dropout, a, {&x}, {{24, width}});
  a.context_degree = 2;
  beside.context_rank = 1;
  beside.run(Op::dropout, a, {&x}, {{24, width}});
  a.sequence_parallel = true;
  a.tensor_degree = 2;
  beside.tensor_rank = 1;
  const OpTensor own = beside.random({{12, width}}, 1);
  beside.run(Op::dropout_grad, a, {&own}, {{12, width}});
  a.sequence_parallel = false;
  a.hidden_share = true;
  beside.run(Op::dropout_grad, a, {&x}, {{24, width}});
}

TEST_CASE("CUDA positions are those of the CPU on every rank", "[exec][cuda]") {
  const std::int64_t width = GENERATE(16, 9);
  Beside beside(GENERATE(from_range(all_types)));
  Attributes a = sequences(3, 8);
  a.position_offset = 2;
  const OpTensor x = beside.random({{24, width}}, 1), table = beside.random({{40, width}}, 2);
  a.context_degree = 2;
  beside.context_rank = 1;
  beside.run(Op::add_position, a, {&x, &table}, {{24, width}});
  beside.run(Op::add_position_grad, a, {&x}, {{40, width}}, 1);
  a.context_degree = 1;
  a.sequence_parallel = true;
  a.tensor_degree = 2;
  beside.tensor_rank = 1;
  const OpTensor own = beside.random({{12, width}}, 1);
  beside.run(Op::add_position, a, {&own, &table}, {{12, width}});
  beside.run(Op::add_position_grad, a, {&own}, {{40, width}}, 1);
}

TEST_CASE("CUDA embedding gradients of tokens that come often, once and not at all",
          "[exec][cuda]") {
  const std::int64_t width = GENERATE(264, 40, 13);
  Beside beside(GENERATE(from_range(all_types)));
  const int tokens = 1500, words = 60;
  std::vector<int> text;
  for (int i = 0; i < tokens; ++i) text.push_back(i % 3 == 0 ? 7 : i % 7 == 0 ? 8 : i % 50);
  text[500] = 59;
  // The first of these tokens is in the same thread block's part as that of word 7.
  for (int i = 1024; i < tokens; i += 4) text[static_cast<std::size_t>(i)] = 55;
  const OpTensor token = integers({tokens}, text), dy = beside.random({{tokens, width}}, 1);
  Attributes a = sequences(1, tokens);
  const OpTensor table = beside.random({{words, width}}, 2);
  beside.run(Op::embedding, a, {&token, &table}, {{tokens, width}});
  beside.run(Op::embedding_grad, a, {&token, &dy}, {{words, width}}, 1);
  a.vocabulary_parallel = true;
  a.tensor_degree = 3;
  const OpTensor part = beside.random({{words / 3, width}}, 3);
  for (beside.tensor_rank = 0; beside.tensor_rank < 3; ++beside.tensor_rank) {
    beside.run(Op::embedding, a, {&token, &part}, {{tokens, width}});
    beside.run(Op::embedding_grad, a, {&token, &dy}, {{words / 3, width}}, 1);
  }
}

TEST_CASE("CUDA gradients of rows that were chosen twice, or not", "[exec][cuda]") {
  const std::int64_t width = GENERATE(272, 5);
  Beside beside(GENERATE(from_range(all_types)));
  const int batch = 2, length = 50, chosen = 70;
  std::vector<int> places;
  for (int i = 0; i < batch * chosen; ++i) places.push_back(i * i % 37);
  const OpTensor positions = integers({batch, chosen}, places);
  const OpTensor dy = beside.random({{batch * chosen, width}}, 1);
  beside.run(Op::select_positions_grad, sequences(batch, length), {&dy, &positions},
             {{batch * length, width}});
}

TEST_CASE("CUDA keys and values of a context group", "[exec][cuda]") {
  const int dim = GENERATE(16, 6);
  Beside beside(GENERATE(from_range(all_types)));
  const std::int64_t rows = 11;
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head}) {
    Attributes a = sequences(1, rows);
    a.packing = packing;
    a.head_dim = dim;
    a.heads = 4;
    a.kv_heads = packing == Packing::per_head ? 4 : 2;
    const Shape own{rows, a.kv_heads * dim}, packed{rows, 2 * a.kv_heads * dim},
        queries{rows, a.heads * dim}, all{rows, (a.heads + 2 * a.kv_heads) * dim};
    const OpTensor k = beside.random({own}, 1), v = beside.random({own}, 2),
                   qkv = beside.random({all}, 3), dq = beside.random({queries}, 4);
    if (packing == Packing::separate) {
      const OpTensor kv = beside.run(Op::context_pack, a, {&k, &v}, {packed})[0];
      beside.run(Op::context_unpack, a, {&kv}, {own, own});
    } else {
      const OpTensor kv = beside.run(Op::context_pack, a, {&qkv}, {packed})[0];
      beside.run(Op::context_unpack, a, {&dq, &kv}, {all});
    }
  }
}

TEST_CASE("CUDA slices of the sequence", "[exec][cuda]") {
  Beside beside(GENERATE(from_range(all_types)));
  Attributes a = sequences(2, 6);
  a.tensor_degree = 3;
  const OpTensor x = beside.random({{12, 5}}, 1);
  for (beside.tensor_rank = 0; beside.tensor_rank < 3; ++beside.tensor_rank)
    beside.run(Op::sequence_slice, a, {&x}, {{4, 5}});
}

TEST_CASE("CUDA angles of late positions keep their digits", "[exec][cuda]") {
  Beside beside(Dtype::f32);
  Attributes a = sequences(1, 4);
  a.heads = a.kv_heads = 1;
  a.head_dim = a.rotary_dim = 64;
  a.context_degree = 2;
  beside.context_rank = 1;
  a.sequence_length = 1 << 18;  // two rows of a long sequence
  const OpTensor x = beside.random({{2, 64}}, 1);
  beside.run(Op::rope, a, {&x}, {{2, 64}});
  beside.run(Op::rope_grad, a, {&x}, {{2, 64}});
}

TEST_CASE("CUDA sums of a step add up in double precision", "[exec][cuda]") {
  TableBackend tables;
  const std::int64_t count = GENERATE(1, 7, 4096, 300007);
  const auto add_to = [&](Op op, const OpTensor& x, double before) {
    OpTensor sum({{1}, Dtype::f64});
    sum.set(0, before);
    const std::vector<TensorType> in = {x.type}, out = {sum.type};
    const std::vector<const void*> from = {x.storage.data()};
    const std::vector<void*> to = {sum.storage.data()};
    tables.run({op, {}, in, out}, {from, to}, {});
    return sum.get(0);
  };
  for (const Dtype dtype : all_types) {
    const OpTensor x = Runner(tables, dtype).random({{count}}, 3);
    double sum = 0.25, squares = 0.25;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += x.get(i);
      squares += x.get(i) * x.get(i);
    }
    CHECK(add_to(Op::sum_of_squares, x, 0.25) == Approx(squares).epsilon(1e-12));
    if (dtype == Dtype::f32)
      CHECK(add_to(Op::sum_loss, x, 0.25) ==
            Approx(sum).epsilon(0).margin(1e-12 * static_cast<double>(count)));
  }
}

TEST_CASE("CUDA clears all outputs", "[exec][cuda]") {
  TableBackend tables;
  Runner runner(tables, Dtype::bf16);
  for (const OpTensor& tensor : runner.run(Op::zero, {}, {}, {{33}, {2, 5}}))
    for (std::int64_t i = 0; i < tensor.elements(); ++i) CHECK(tensor.get(i) == 0);
}

TEST_CASE("CUDA parameter gradients may be sums of 16 bits", "[exec][cuda]") {
  TableBackend tables;
  Runner runner(tables, Dtype::bf16);
  const std::int64_t rows = 30, width = GENERATE(24, 7);
  const OpTensor dy = runner.random({{rows, width}}, 1);
  OpTensor sum({{width}, Dtype::bf16});
  for (std::int64_t c = 0; c < width; ++c) sum.set(c, 0.5);
  const std::vector<TensorType> in = {dy.type}, out = {sum.type};
  const std::vector<const void*> from = {dy.storage.data()};
  const std::vector<void*> to = {sum.storage.data()};
  tables.run({Op::bias_grad, {}, in, out}, {from, to}, {});
  for (std::int64_t c = 0; c < width; ++c) {
    double expected = 0.5;
    for (std::int64_t r = 0; r < rows; ++r) expected += dy.get(r * width + c);
    CHECK(sum.get(c) == Approx(expected).epsilon(0x1p-8));
  }
}
