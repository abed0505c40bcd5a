// Compares attention on the emulated device with the CPU backend in double precision: lengths and
// widths around the kernels' tiles, every packing, shared heads, biases and dropout. Also compares
// the operations of a context group, whose operands are random and need not be consistent.
#include "tests/exec/attention_cases.h"

#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/context.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/exec/table_backend.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"

using namespace meshwright::tests;

namespace {

constexpr Packing separate = Packing::separate, concatenated = Packing::concatenated,
                  per_head = Packing::per_head;
const bool thinned = sanitized || !all_are_tried();

// Returns whether these shapes are skipped. Each of the shapes is tried in one of three precisions,
// unless all cases are tried.
bool is_left_out(const AttentionShapes& shapes, Dtype dtype) {
  const int place = dtype == Dtype::f32 ? 0 : dtype == Dtype::f16 ? 1 : 2;
  return thinned && (shapes.length + shapes.head_dim + place + draw_of_run()) % 3 != 0;
}

}  // namespace

TEST_CASE("CUDA attention agrees around its tiles", "[exec][cuda]") {
  const AttentionShapes shapes =
      GENERATE(AttentionShapes{1, 64, 2, 2, separate, true},         //
               AttentionShapes{17, 8, 4, 2, concatenated, true},     //
               AttentionShapes{64, 40, 2, 2, per_head, false},       //
               AttentionShapes{130, 64, 2, 1, concatenated, true},   //
               AttentionShapes{257, 64, 1, 1, separate, false},      //
               AttentionShapes{130, 80, 2, 2, per_head, true},       //
               AttentionShapes{130, 96, 2, 2, concatenated, false},  //
               AttentionShapes{257, 128, 2, 1, separate, true},      //
               AttentionShapes{64, 128, 1, 1, concatenated, false},  //
               AttentionShapes{67, 7, 3, 1, concatenated, true},     // not by 16 bytes
               AttentionShapes{66, 200, 2, 1, separate, true},       //
               AttentionShapes{131, 256, 1, 1, per_head, false});
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16, Dtype::f16);
  if (is_left_out(shapes, dtype)) return;
  check_attention(attention_case(shapes, {}), dtype);
}

TEST_CASE("CUDA attention agrees with biases and dropout", "[exec][cuda]") {
  const AttentionShapes shapes = GENERATE(AttentionShapes{17, 40, 2, 1, separate, false},   //
                                          AttentionShapes{130, 64, 1, 1, separate, true},   //
                                          AttentionShapes{130, 80, 1, 1, separate, false},  //
                                          AttentionShapes{67, 96, 2, 2, separate, true},    //
                                          AttentionShapes{257, 128, 1, 1, separate, true},  //
                                          AttentionShapes{66, 256, 1, 1, separate, false});
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16, Dtype::f16);
  if (is_left_out(shapes, dtype)) return;
  Attributes a;
  a.dropout = 0.25;
  a.dropout_key = 0x123456789ABCDEF0;
  check_attention(attention_case(shapes, a), dtype);
  a.alibi = shapes.causal;
  a.window = shapes.causal ? 20 : 0;
  if (!shapes.causal) a.relative_buckets = 32, a.relative_distance = 128, a.scaled_scores = false;
  if (a.relative_buckets > 0 && shapes.head_dim > 80) return;  // such large scores test nothing
  check_attention(attention_case(shapes, a), dtype);
  a.attention = AttentionKernel::unfused;
  check_attention(attention_case(shapes, a), dtype);
}

TEST_CASE("CUDA attention agrees with chunks", "[exec][cuda]") {
  const AttentionShapes shapes = GENERATE(AttentionShapes{17, 40, 2, 1, separate, true},      //
                                          AttentionShapes{130, 64, 2, 1, separate, true},     //
                                          AttentionShapes{67, 96, 1, 1, concatenated, true},  //
                                          AttentionShapes{257, 128, 2, 1, separate, true},    //
                                          AttentionShapes{66, 256, 1, 1, separate, true});
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16, Dtype::f16);
  if (is_left_out(shapes, dtype)) return;
  Attributes a;
  a.chunk = 16;
  check_attention(attention_case(shapes, a), dtype);
  a.chunk = 45;  // beyond a tile, and no number of them
  a.window = 30;
  a.dropout = 0.25;
  a.dropout_key = 9;
  check_attention(attention_case(shapes, a), dtype);
  a.attention = AttentionKernel::unfused;
  check_attention(attention_case(shapes, a), dtype);
}

TEST_CASE("CUDA attention agrees inside documents", "[exec][cuda]") {
  const AttentionShapes shapes = GENERATE(AttentionShapes{17, 40, 2, 1, separate, true},      //
                                          AttentionShapes{130, 64, 2, 1, separate, true},     //
                                          AttentionShapes{67, 96, 1, 1, concatenated, true},  //
                                          AttentionShapes{257, 128, 2, 1, separate, true},    //
                                          AttentionShapes{66, 256, 1, 1, separate, true});
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16, Dtype::f16);
  if (is_left_out(shapes, dtype)) return;
  Attributes a;
  a.documents = true;
  check_attention(attention_case(shapes, a), dtype);
  AttentionShapes both_sides = shapes;
  both_sides.causal = false;
  check_attention(attention_case(both_sides, a), dtype);
  a.attention = AttentionKernel::unfused;
  check_attention(attention_case(both_sides, a), dtype);
  a.attention = AttentionKernel::flash2;
  a.alibi = true;
  a.chunk = 45;
  a.dropout = 0.25;
  a.dropout_key = 9;
  check_attention(attention_case(shapes, a), dtype);
  a.attention = AttentionKernel::unfused;
  check_attention(attention_case(shapes, a), dtype);
}

TEST_CASE("CUDA attention knows which of the model's heads a context rank has", "[exec][cuda]") {
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16);
  const AttentionShapes shapes{67, 40, 2, 1, separate, true};
  Attributes a;
  a.head_parts = 2;
  a.alibi = true;
  a.dropout = 0.25;
  a.dropout_key = 5;
  check_attention(attention_case(shapes, a), dtype);
  a.attention = AttentionKernel::unfused;
  check_attention(attention_case(shapes, a), dtype);
  Attributes with_sinks;
  with_sinks.head_parts = 2;
  with_sinks.sinks = true;
  check_attention(attention_case(shapes, with_sinks), dtype);
}

TEST_CASE("CUDA attention agrees with capped scores", "[exec][cuda]") {
  const AttentionShapes shapes = GENERATE(AttentionShapes{17, 40, 2, 1, separate, false},     //
                                          AttentionShapes{130, 64, 2, 1, separate, true},     //
                                          AttentionShapes{67, 96, 1, 1, concatenated, true},  //
                                          AttentionShapes{257, 128, 1, 1, separate, true},    //
                                          AttentionShapes{66, 256, 2, 1, separate, true});
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16, Dtype::f16);
  if (is_left_out(shapes, dtype)) return;
  Attributes a;
  a.score_cap = 2;
  a.score_width = shapes.head_dim + 16;
  check_attention(attention_case(shapes, a), dtype);
  a.window = shapes.causal ? 20 : 0;
  a.dropout = 0.25;
  a.dropout_key = 9;
  if (!shapes.causal) a.relative_buckets = 32, a.relative_distance = 128;
  check_attention(attention_case(shapes, a), dtype);
  a.attention = AttentionKernel::unfused;
  check_attention(attention_case(shapes, a), dtype);
}

TEST_CASE("the table of relative positions gets its gradient from all tiles", "[exec][cuda]") {
  const int head_dim = GENERATE(8, 64, 128);
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16);
  Attributes a;
  a.relative_buckets = 16;
  a.relative_distance = 100;
  check_attention(attention_case({257, head_dim, 2, 1, separate, true}, a), dtype);
}

TEST_CASE("CUDA attention refuses heads that no kernel has registers for", "[exec][cuda]") {
  TableBackend tables;
  Runner runner(tables, Dtype::bf16);
  const Case c = attention_case({4, 264, 1, 1, separate, true}, {});
  CHECK_THROWS_WITH(play(runner, c), Catch::Contains("at most 256 elements, not 264"));
}

namespace {

// Compares both operations of one ring step, or of all steps at once, on random operands. If ranks
// share out the heads, this is the last of them.
void check_context(Attributes a, int rank, bool continues, Dtype dtype) {
  a.heads = 2;
  a.alibi_heads = a.heads * a.head_parts;
  a.kv_heads = 1;
  const std::int64_t rows = std::int64_t{a.micro_batch} * a.sequence_length;
  const std::int64_t kv_rows = a.ring_step < 0 ? a.context_degree * rows : rows;
  const Shape q{rows, std::int64_t{a.heads} * a.head_dim};
  const Shape packed_q{rows, std::int64_t{a.heads + 2 * a.kv_heads} * a.head_dim};
  const Shape kv{kv_rows, std::int64_t{2} * a.kv_heads * a.head_dim};
  const Shape log_sums{std::int64_t{a.micro_batch} * a.heads, a.sequence_length};

  TableBackend tables;
  const auto cpu = make_cpu_backend(1);
  Runner runner(tables, dtype), statistics(tables, Dtype::f32), reference(*cpu, Dtype::f64);
  runner.context_rank = reference.context_rank = rank * a.head_parts + a.head_parts - 1;
  const Shape all_heads{std::int64_t{a.heads} * a.head_parts};
  const OpTensor sinks = runner.random({all_heads}, 7);
  OpTensor documents = runner.random({{rows}, a.sequence_length, true}, 8);
  for (std::int64_t row = 0; row < rows && a.documents; ++row)
    documents.set(
        row, static_cast<double>(context_position(a.context_degree, rank, a.sequence_length,
                                                  static_cast<std::int64_t>(documents.get(row)))));
  const OpTensor query = runner.random({a.packing == separate ? q : packed_q}, 1),
                 keys = runner.random({kv}, 2), y = runner.random({q}, 3),
                 dy = runner.random({q}, 4), dq = runner.random({q}, 5),
                 saved = statistics.random({log_sums}, 6);
  const auto both = [&](Op op, const Tensors& inputs, const std::vector<Shape>& outputs) {
    const Tensors wide = in_type(inputs, Dtype::f64);
    std::vector<const OpTensor*> in, wide_in;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      in.push_back(&inputs[i]);
      wide_in.push_back(&wide[i]);
    }
    const std::size_t added = outputs.size() == 3 ? 1 : 0;  // sinks
    compare(info(op).name, runner.run(op, a, in, outputs, added),
            reference.run(op, a, wide_in, outputs, added), dtype);
  };
  const bool first = adds_sinks(a);
  Tensors inputs{query, keys};
  if (continues) inputs.insert(inputs.end(), {y, saved});
  if (first) inputs.push_back(sinks);
  if (a.documents) inputs.push_back(documents);
  both(Op::context_attention, inputs, {q, log_sums});
  inputs = {query, keys, y, saved, dy};
  if (continues) inputs.push_back(dq);
  if (first) inputs.push_back(sinks);
  if (a.documents) inputs.push_back(documents);
  both(Op::context_attention_grad, inputs,
       first ? std::vector<Shape>{q, kv, all_heads} : std::vector<Shape>{q, kv});
  CHECK(tables.ran.size() == 2);
}

}  // namespace

TEST_CASE("CUDA attention of a context group agrees at every step", "[exec][cuda][context]") {
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16);
  const bool causal = GENERATE(true, false);
  // Half lengths that end inside a block of four random words of dropout, and one that ends at its
  // bound.
  const int half = GENERATE(3, 66, 68);
  const int rank = GENERATE(0, 2);
  if (thinned && ((dtype == Dtype::f32) != (rank == 0) || (half == 66) == causal)) return;
  Attributes a;
  a.micro_batch = half > 3 ? 1 : 2;
  a.sequence_length = 2 * half;
  a.head_dim = 16;
  a.context_degree = 3;
  a.causal = causal;
  a.packing = rank == 0 ? separate : concatenated;
  for (const bool extras : {false, true}) {
    if ((thinned || half == 68) && !extras) continue;
    a.alibi = extras && causal;  // else the places of other ranks weigh too much
    a.score_cap = extras ? 2 : 0;
    a.dropout = extras ? 0.25 : 0;
    a.chunk = extras && causal && half > 3 ? half + 5 : 0;
    a.dropout_key = 3;
    a.documents = causal && half != 66;
    a.sinks = extras && a.packing == separate;
    a.head_parts = half == 68 ? 2 : 1;
    for (a.ring_step = -1; a.ring_step < a.context_degree; ++a.ring_step) {
      INFO(name_of(dtype) << ", causal " << causal << ", half " << half << ", rank " << rank
                          << ", step " << a.ring_step << ", extras " << extras);
      check_context(a, rank, a.ring_step > 0, dtype);
    }
  }
}
