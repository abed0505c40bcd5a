#include "models/program/graph/gpu_scratch.h"

#include <algorithm>
#include <set>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "models/program/graph/fusion.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

std::int64_t scratch_of(Op op, const std::vector<TensorType>& inputs,
                        const std::vector<TensorType>& outputs, const Attributes& attributes = {}) {
  return gpu_scratch_bytes({op, attributes, inputs, outputs});
}

}  // namespace

TEST_CASE("sums over rows have a row in fp32 for each chunk of rows", "[models][graph]") {
  const TensorType bias{{768}, Dtype::f32};
  // 1000 rows have 32 chunks of 32 rows. 16384 rows have 256 chunks, which is the most.
  CHECK(scratch_of(Op::bias_grad, {{{1000, 768}, Dtype::bf16}}, {bias}) == 32 * 768 * 4);
  CHECK(scratch_of(Op::bias_grad, {{{16384, 768}, Dtype::bf16}}, {bias}) == 256 * 768 * 4);
  // A norm has gradients of weight and bias. 792 thread blocks run at once, so chunks have 21 rows.
  const TensorType x{{16384, 768}, Dtype::bf16};
  CHECK(scratch_of(Op::layer_norm_grad, {x, bias, bias, x}, {x, bias, bias}) == 2 * 781 * 768 * 4);
  CHECK(scratch_of(Op::rms_norm_grad, {x, bias, bias, x}, {x, bias}) == 781 * 768 * 4);
}

// The expected values are those that `cuda_gpu_tests "cuDNN's attention beside ours"` prints on an
// H200.
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

namespace {

Attributes two_sequences(int length = 8) {
  Attributes a;
  a.micro_batch = 2, a.sequence_length = length;
  a.heads = a.kv_heads = 4, a.head_dim = 16;
  return a;
}

}  // namespace

TEST_CASE("tables of relative positions need biases and sums by distance", "[models][graph]") {
  Attributes a = two_sequences(100);
  a.relative_buckets = 6, a.relative_distance = 20;
  // Each of 4 heads has a bias for 41 distances.
  const std::int64_t bias = 41 * 4 * 4;
  const TensorType heads{{200, 64}, Dtype::bf16}, scores{{8, 100, 100}, Dtype::bf16},
      table{{6, 4}, Dtype::bf16}, saved{{8, 100}, Dtype::f32};
  CHECK(scratch_of(Op::attention, {heads, heads, heads, table}, {heads, saved}, a) == bias);
  CHECK(scratch_of(Op::add_relative_bias, {scores, table}, {scores}, a) == bias);
  // The 100 rows of each of 8 score matrices have 4 strips of at most 32 rows, with 6 sums each.
  CHECK(scratch_of(Op::relative_bias_grad, {scores}, {{{6, 4}, Dtype::f32}}, a) == 8 * 4 * 6 * 4);
  Attributes unfused = a;
  unfused.attention = AttentionKernel::unfused;
  CHECK(scratch_of(Op::attention, {heads, heads, heads, table}, {heads, scores}, unfused) ==
        bias + 2 * 4 * 100 * 4);
  // The gradient needs two sums for each of 800 rows, the biases, 199 sums for each head, and sums
  // for each block of queries of 8 heads. A block of q queries sees 100 + q - 1 distances: two
  // blocks of 64 queries see 163 each, and one block of 128 sees 227. In fp32, blocks have 32 or 64
  // queries, and 4 blocks see 131 each.
  const auto grad = [&](Dtype dtype, int width) {
    Attributes wide = a;
    wide.head_dim = width;
    const TensorType x{{200, std::int64_t{4} * width}, dtype};
    return scratch_of(Op::attention_grad, {x, x, x, x, saved, x, table}, {x, x, x}, wide);
  };
  const std::int64_t always = 4 * (2 * 800 + 41 * 4 + 199 * 4);
  CHECK(grad(Dtype::bf16, 16) == always + 4 * 8 * 2 * 163);
  CHECK(grad(Dtype::f32, 16) == always + 4 * 8 * 4 * 131);
  // For heads wider than 128, blocks have half of the queries: 32 in 16 bits, 16 in fp32 (7 blocks
  // that see 115 distances each).
  CHECK(grad(Dtype::bf16, 128) == always + 4 * 8 * 2 * 163);
  CHECK(grad(Dtype::bf16, 136) == always + 4 * 8 * 4 * 131);
  CHECK(grad(Dtype::f32, 136) == always + 4 * 8 * 7 * 115);
}

TEST_CASE("experts have lists of choices, sums and counts", "[models][graph]") {
  Attributes a = two_sequences(8);
  a.experts = 6, a.experts_per_token = 3, a.expert_capacity = 2;
  const TensorType logits{{16, 6}, Dtype::bf16}, slots{{16, 3}, Dtype::i32};
  const TensorType weights{{16, 3}, Dtype::f32}, rows{{24, 32}, Dtype::bf16};
  // There are 48 choices, two numbers for each of 16 tokens, and 12 products in f64. The bytes of
  // each of the three are a multiple of 16.
  CHECK(scratch_of(Op::route, {logits}, {weights, slots}, a) == 48 * 4 + 16 * 2 * 4 + 12 * 8);
  CHECK(scratch_of(Op::route_grad, {logits, slots, weights}, {logits}, a) == 6 * 2 * 4);
  CHECK(scratch_of(Op::dispatch, {rows, slots}, {rows}, a) == 24 * 4);
  CHECK(scratch_of(Op::combine_grad, {rows, weights, slots, rows}, {rows, weights}, a) == 24 * 4);
  const TensorType weight{{6, 48, 32}, Dtype::bf16}, made{{24, 48}, Dtype::bf16},
      sum{{6, 48, 32}, Dtype::f32};
  CHECK(scratch_of(Op::expert_linear, {rows, weight}, {made}, a) == 0);
  CHECK(scratch_of(Op::expert_linear_grad_weight, {rows, made}, {sum}, a) == 0);
  Attributes apart = a;
  apart.accumulate_separately = true;
  CHECK(scratch_of(Op::expert_linear_grad_weight, {rows, made}, {sum}, apart) == 6 * 48 * 32 * 2);
  // Bytes are rounded up to multiples of 16, such as 3 * 4 and 3 * 8 for a sequence of three
  // tokens.
  Attributes odd = a;
  odd.micro_batch = 1, odd.sequence_length = 3, odd.experts = 5, odd.experts_per_token = 1;
  CHECK(scratch_of(Op::route, {{{3, 5}, Dtype::bf16}}, {weights, slots}, odd) == 16 + 32 + 48);
  // A dropless layer also needs a number for each expert and one for each sequence.
  Attributes dropless = a;
  dropless.expert_rows = 24;
  CHECK(scratch_of(Op::route, {logits}, {weights, slots}, dropless) ==
        48 * 4 + 16 * 2 * 4 + 12 * 8 + 4 * (6 + 2));
  CHECK(scratch_of(Op::route_grad, {logits, slots, weights}, {logits}, dropless) == 6 * 3 * 4);
  for (const Op op : {Op::expert_linear, Op::expert_linear_grad_input})
    CHECK(scratch_of(op, {rows, weight}, {made}, dropless) == 6 * 4);
  CHECK(scratch_of(Op::expert_linear_grad_weight, {rows, made}, {sum}, dropless) == 6 * 4);
}

TEST_CASE("other operations have what their kernels leave for the next", "[models][graph]") {
  const TensorType x{{100, 64}, Dtype::bf16}, row{{64}, Dtype::f32}, tokens{{100}, Dtype::i32};
  // A table of 10 rows needs four numbers for each row, and one for each token.
  CHECK(scratch_of(Op::embedding_grad, {tokens, x}, {{{10, 64}, Dtype::f32}}) == 4 * (40 + 100));
  // The 100 rows have 4 chunks of at most 32 rows.
  for (const Op op : {Op::bias_grad, Op::add_row_grad, Op::scale_columns_grad})
    CHECK(scratch_of(op, {x, x}, {row}) == 4 * 64 * 4);
  const TensorType saved{{100, 2}, Dtype::f32}, sums{{2, 100}, Dtype::f32};
  CHECK(scratch_of(Op::norm_parts_sums, {x, row, saved, x}, {sums}) == 0);
  CHECK(scratch_of(Op::norm_parts_sums, {x, row, saved, x}, {sums, row}) == 4 * 64 * 4);
  CHECK(scratch_of(Op::norm_parts_sums, {x, row, saved, x}, {sums, row, row}) == 2 * 4 * 64 * 4);
  // A norm without weights reads zeros in their place: 16 columns in bf16. Its gradient has no sums
  // but still has memory for them: 400 rows of heads in chunks of 8.
  Attributes a;
  a.head_dim = 16;
  CHECK(scratch_of(Op::head_norm, {x}, {x, {{100, 4}, Dtype::f32}}, a) == 32);
  const TensorType weight{{16}, Dtype::bf16};
  CHECK(scratch_of(Op::head_norm, {x, weight}, {x, {{100, 4}, Dtype::f32}}, a) == 0);
  const TensorType of_heads{{100, 4}, Dtype::f32};
  CHECK(scratch_of(Op::head_norm_grad, {x, of_heads, x, weight}, {x, {{16}, Dtype::f32}}, a) ==
        50 * 16 * 4);
  CHECK(scratch_of(Op::head_norm_grad, {x, of_heads, x}, {x}, a) == 50 * 16 * 4 + 32);
  // There is one sum of squares in f64 for every 16384 elements, at least one and at most 1024.
  const auto squares = [](std::int64_t elements) {
    return scratch_of(Op::sum_of_squares, {{{elements}, Dtype::f32}}, {{{1}, Dtype::f64}});
  };
  CHECK(squares(0) == 8);
  CHECK(squares(1) == 8);
  CHECK(squares(16384) == 8);
  CHECK(squares(16385) == 16);
  CHECK(squares(1024 * 16384) == 1024 * 8);
  CHECK(squares(2048 * 16384) == 1024 * 8);
}

// Rows longer than 8192 columns, or not of whole 16-byte pieces, are not held in registers.
TEST_CASE("a norm's gradient is summed in chunks that are on the device at once",
          "[models][graph]") {
  const auto chunks = [](std::int64_t rows, std::int64_t columns, Dtype dtype) {
    return chunks_of_norm_grad({{rows, columns}, dtype}).chunks;
  };
  const std::int64_t many = 2640 * 400;
  // A thread block has 32 threads for each 256 columns, above 192 threads rounded up to 256, 512 or
  // 1024. Each of 132 multiprocessors runs at once 640 / threads blocks of up to 192 threads, 3 of
  // 256, or 1024 / threads of larger ones.
  CHECK(chunks(many, 256, Dtype::bf16) == 2640);  // 20 * 132
  CHECK(chunks(many, 1536, Dtype::bf16) == 396);  // 192 threads: 3 * 132
  CHECK(chunks(many, 2048, Dtype::bf16) == 396);  // 256 threads: 3 * 132
  CHECK(chunks(many, 4096, Dtype::bf16) == 264);  // 512 threads: 2 * 132
  CHECK(chunks(many, 8192, Dtype::bf16) == 132);  // 1024 threads
  CHECK(chunks(many, 8200, Dtype::bf16) == 256);
  CHECK(chunks(many, 1540, Dtype::bf16) == 256);
  CHECK(chunks(many, 1540, Dtype::f32) > 256);  // in fp32, 16 bytes are four columns
  CHECK(chunks(80, 256, Dtype::bf16) == 10);    // 8 rows at least
  CHECK(chunks(80, 1540, Dtype::bf16) == 3);    // 32 rows at least
}

TEST_CASE("values of a width of their own are widened to that of queries", "[models][graph]") {
  Attributes a = two_sequences();
  a.value_dim = 8;
  const TensorType q{{16, 64}, Dtype::bf16}, v{{16, 32}, Dtype::bf16}, saved{{8, 8}, Dtype::f32};
  const std::int64_t wide = 16 * 64 * 2;  // 2048, a multiple of 256
  CHECK(scratch_of(Op::attention, {q, q, v}, {v, saved}, a) == 2 * wide);
  // Wide copies of dV, of v, and of the inputs y and dy follow two sums for each of 64 rows, which
  // take 512 bytes.
  CHECK(scratch_of(Op::attention_grad, {q, q, v, v, saved, v}, {q, q, v}, a) == 512 + 4 * wide);
  a.attention = AttentionKernel::unfused;
  CHECK(scratch_of(Op::attention, {q, q, v}, {v, saved}, a) == 256 + 2 * wide);
}

TEST_CASE("cuDNN computes what it has kernels for", "[models][graph]") {
  Attributes a = two_sequences();
  a.attention = AttentionKernel::cudnn;
  const auto may = [](const Attributes& attributes, Op op = Op::attention,
                      Dtype dtype = Dtype::bf16) {
    const std::vector<TensorType> heads(3, TensorType{{16, 64}, dtype});
    return may_be_cudnns({op, attributes, heads, heads});
  };
  CHECK(may(a));
  CHECK(may(a, Op::attention_grad));
  CHECK(may(a, Op::attention, Dtype::f16));
  CHECK_FALSE(may(a, Op::context_attention));
  CHECK_FALSE(may(a, Op::attention, Dtype::f32));
  const auto without = [&](auto change) {
    Attributes changed = a;
    change(changed);
    return !may(changed);
  };
  CHECK(without([](Attributes& to) { to.attention = AttentionKernel::flash2; }));
  CHECK(without([](Attributes& to) { to.head_dim = 20; }));
  CHECK_FALSE(without([](Attributes& to) { to.head_dim = 128; }));
  CHECK(without([](Attributes& to) { to.head_dim = 136; }));
  CHECK(without([](Attributes& to) { to.value_dim = 8; }));
  CHECK(without([](Attributes& to) { to.alibi = true; }));
  CHECK(without([](Attributes& to) { to.relative_buckets = 4; }));
  CHECK(without([](Attributes& to) { to.dropout = 0.1; }));
  CHECK(without([](Attributes& to) { to.window = 4; }));
  CHECK(without([](Attributes& to) { to.chunk = 4; }));
  CHECK(without([](Attributes& to) { to.score_cap = 30; }));
  CHECK(without([](Attributes& to) { to.sinks = true; }));
  CHECK(without([](Attributes& to) { to.documents = true; }));
}

TEST_CASE("a fusion's sums are made in strips of its rows", "[models][graph]") {
  const auto strips = [](std::int64_t rows, std::int64_t columns) {
    return strips_of_fusion(rows, columns).chunks;
  };
  const std::int64_t many = 1 << 24;
  CHECK(strips(many, 256) == 2048);      // each row is summed by a warp
  CHECK(strips(many, 512) == 1320);      // 64 threads: 10 blocks on each of 132 multiprocessors
  CHECK(strips(many, 1024) == 5 * 132);  // 128 threads
  CHECK(strips(many, 1032) == 512);
  CHECK(strips(80, 256) == 10);  // 8 rows at least
}

namespace {

// Returns the scratch bytes that one step of a fusion needs for `rows` rows.
std::int64_t scratch_of_step(const Fusion& fusion, const FusedStep& step, std::int64_t rows) {
  std::vector<TensorType> inputs, outputs;
  for (const int id : step.inputs) inputs.push_back(fusion.of_block(id, rows));
  for (const int id : step.outputs) outputs.push_back(fusion.of_block(id, rows));
  return gpu_scratch_bytes({step.op, step.attributes, inputs, outputs});
}

std::int64_t most_of_steps(const Fusion& fusion, std::int64_t rows) {
  std::int64_t most = 0;
  for (const FusedStep& step : fusion.steps)
    most = std::max(most, scratch_of_step(fusion, step, rows));
  return most;
}

// Returns the bytes of a fusion's sums: one row in fp32 for each sum and each strip of the rows.
std::int64_t sums_of(const Fusion& fusion) {
  if (fusion.accumulated == 0) return 0;
  const TensorType& first =
      fusion.operands[static_cast<std::size_t>(fusion.inputs + fusion.outputs)];
  const std::int64_t columns = first.shape.elements();
  return 4 * columns * fusion.accumulated * strips_of_fusion(fusion.rows, columns).chunks;
}

}  // namespace

TEST_CASE("a fusion has room for its sums, and for the step that needs most", "[models][graph]") {
  std::set<Fusion::Loop> seen;
  for (const char* family : {"gpt", "llama", "bert"})
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const Model model = small_model(family);
      Plan plan = small_plan(model, {});
      plan.training.compiler = CompilerLevel::full;
      plan.training.precision = precision;
      const Graph graph = run_passes(build_graph(model, plan.training), plan);
      for (const Node& node : graph.nodes) {
        if (node.op != Op::fused) continue;
        const Fusion& fusion = *node.attributes.fusion;
        INFO(family << ", loop " << static_cast<int>(fusion.loop));
        seen.insert(fusion.loop);
        std::int64_t wanted = 0;
        switch (fusion.loop) {
          case Fusion::Loop::blocks:
            wanted = sums_of(fusion);
            break;
          case Fusion::Loop::product_first:
            wanted = std::max(sums_of(fusion),
                              scratch_of_step(fusion, fusion.steps.front(), fusion.rows));
            break;
          case Fusion::Loop::long_blocks:
            wanted = most_of_steps(fusion, fusion.block_rows);
            break;
          case Fusion::Loop::products:
            wanted = most_of_steps(fusion, fusion.rows) + fusion.internal_bytes(fusion.rows);
            break;
        }
        CHECK(scratch_of(Op::fused, {}, {}, node.attributes) == wanted);
      }
    }
  CHECK(seen.size() == 4);
}
