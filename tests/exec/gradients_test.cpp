// Compares every gradient operation with central differences in double precision.
#include <cmath>
#include <functional>

#include "exec/backends/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

// Returns the largest |gradient - central difference| over up to 48 elements of `input`, or 16,
// relative to 1 + |gradient|. With step 1e-5 the difference is off by about 1e-10 f''' and 1e-16 f
// / 1e-5.
double worst_difference(OpTensor& input, const OpTensor& gradient,
                        const std::function<double()>& functional) {
  REQUIRE(gradient.type.shape == input.type.shape);
  constexpr double step = 1e-5;
  const std::int64_t stride = std::max<std::int64_t>(1, input.elements() * one_in(3) / 47) | 1;
  double worst = 0;
  for (std::int64_t i = 0; i < input.elements(); i += stride) {
    const double value = input.get(i);
    input.set(i, value + step);
    const double above = functional();
    input.set(i, value - step);
    const double below = functional();
    input.set(i, value);
    const double expected = (above - below) / (2 * step);
    const double error = std::fabs(gradient.get(i) - expected) / (1 + std::fabs(gradient.get(i)));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

constexpr double tolerance = 1e-8;

double sum_of(const OpTensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) sum += tensor.get(i);
  return sum;
}

double product_of(const OpTensor& a, const OpTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

// Returns rows [first, first + rows) of a matrix or a vector.
OpTensor rows_of(const OpTensor& all, std::int64_t first, std::int64_t rows) {
  Shape shape = all.type.shape;
  shape[0] = rows;
  OpTensor part({shape, all.type.dtype});
  const std::int64_t width = all.elements() / all.type.shape[0];
  for (std::int64_t i = 0; i < part.elements(); ++i) part.set(i, all.get(first * width + i));
  return part;
}

OpTensor columns_of(const OpTensor& all, std::int64_t first, std::int64_t columns) {
  const std::int64_t rows = all.type.shape[0], width = all.type.shape[1];
  OpTensor part({{rows, columns}, all.type.dtype});
  for (std::int64_t i = 0; i < part.elements(); ++i)
    part.set(i, all.get(i / columns * width + first + i % columns));
  return part;
}

// Returns one matrix with both parts, one below the other or side by side.
OpTensor joined(const OpTensor& a, const OpTensor& b, bool side_by_side) {
  Shape shape = a.type.shape;
  const std::int64_t columns = shape[1];
  shape[side_by_side ? 1 : 0] *= 2;
  OpTensor all({shape, a.type.dtype});
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const std::int64_t at = side_by_side ? i / columns * 2 * columns + i % columns : i;
    all.set(at, a.get(i));
    all.set(at + (side_by_side ? columns : a.elements()), b.get(i));
  }
  return all;
}

}  // namespace

TEST_CASE("gradients agree with central differences", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  for (const Case& c : small_cases()) {
    INFO(c.name);
    Runner runner(*backend, Dtype::f64);
    Played p = play(runner, c);
    const auto functional = [&] {
      const OpTensor y = forward(runner, c, p.inputs)[0];
      return rule_of(c.op).is_loss ? c.attributes.scale * sum_of(y) : product_of(y, p.dy);
    };
    std::size_t next = 0;
    for (OpTensor& input : p.inputs) {
      if (input.type.dtype == Dtype::i32) continue;
      CHECK(worst_difference(input, p.gradients.at(next++), functional) < tolerance);
    }
    CHECK(next == p.gradients.size());
  }
}

TEST_CASE("an embedding cut by the vocabulary has the gradient of the whole", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.vocabulary_parallel = true;
  a.tensor_degree = 2;
  const OpTensor tokens = runner.random({{9}, 8}, 1), dy = runner.random({{9, 3}}, 2);
  OpTensor table = runner.random({{8, 3}}, 3);
  const auto of_ranks = [&](Op op, const std::vector<Shape>& shapes, bool gradient) {
    std::vector<OpTensor> results;
    for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
      const OpTensor own = rows_of(table, 4 * runner.tensor_rank, 4);
      results.push_back(runner.run(op, a, {&tokens, gradient ? &dy : &own}, shapes, gradient)[0]);
    }
    return results;
  };
  const auto functional = [&] {
    const std::vector<OpTensor> y = of_ranks(Op::embedding, {{9, 3}}, false);
    return product_of(y[0], dy) + product_of(y[1], dy);  // the ranks' rows are summed
  };
  const std::vector<OpTensor> gradients = of_ranks(Op::embedding_grad, {{4, 3}}, true);
  CHECK(worst_difference(table, joined(gradients[0], gradients[1], false), functional) < tolerance);
}

TEST_CASE("cross-entropy cut by the vocabulary has the gradient of the whole", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const int n = 5, own_columns = 6;
  // 12, 9 or 4 of 12 columns are words, so all, some or none of rank 1's columns are words.
  const int vocabulary = GENERATE(12, 9, 4);
  Attributes a;
  a.vocabulary_parallel = true;
  a.tensor_degree = 2;
  a.vocabulary = vocabulary;
  a.scale = 0.25;
  const OpTensor targets = runner.random({{n}, vocabulary}, 1);
  OpTensor logits = runner.random({{n, 2 * own_columns}}, 2);
  const auto combine = [&] {
    std::vector<OpTensor> stats;
    for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
      const OpTensor own = columns_of(logits, own_columns * runner.tensor_rank, own_columns);
      stats.push_back(runner.run(Op::cross_entropy_stats, a, {&own, &targets}, {{3, n}})[0]);
    }
    const OpTensor gathered = joined(stats[0], stats[1], false);
    return runner.run(Op::cross_entropy_combine, a, {&gathered}, {{n}, {n}});
  };
  const std::vector<OpTensor> combined = combine();

  Attributes whole = a;
  whole.vocabulary_parallel = false;
  const OpTensor loss = runner.run(Op::cross_entropy, whole, {&logits, &targets}, {{n}, {n}})[0];
  for (int r = 0; r < n; ++r) CHECK(combined[0].get(r) == Approx(loss.get(r)).epsilon(1e-12));

  std::vector<OpTensor> gradients;
  for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
    const OpTensor own = columns_of(logits, own_columns * runner.tensor_rank, own_columns);
    gradients.push_back(runner.run(Op::cross_entropy_grad, a, {&own, &combined[1], &targets},
                                   {{n, own_columns}})[0]);
  }
  const OpTensor gradient = joined(gradients[0], gradients[1], true);
  CHECK(worst_difference(logits, gradient, [&] { return a.scale * sum_of(combine()[0]); }) <
        tolerance);
  for (std::int64_t i = 0; i < gradient.elements(); ++i)
    if (i % 12 >= vocabulary) CHECK(gradient.get(i) == 0);
}

namespace {

// A norm over rows of which two ranks have three columns each. One runner plays the ranks in turn.
struct NormInParts {
  Runner& runner;
  Attributes a;
  int rows = 4, w = 3;
  OpTensor x, weight, bias, dy;

  NormInParts(Runner& of, bool rms)
      : runner(of),
        x(of.random({{4, 6}}, 1)),
        weight(of.random({{6}}, 2)),
        bias(of.random({{6}}, 3)),
        dy(of.random({{4, 6}}, 4)) {
    a.tensor_degree = 2;
    a.rms_norm = rms;
    a.epsilon = 0.01;
  }

  OpTensor own(const OpTensor& whole, int rank) const {
    return whole.type.shape.rank == 2 ? columns_of(whole, w * rank, w)
                                      : rows_of(whole, w * rank, w);
  }

  // Returns y and saved of both ranks.
  std::vector<std::vector<OpTensor>> forward() const {
    std::vector<OpTensor> stats;
    for (int rank = 0; rank < 2; ++rank) {
      const OpTensor part = own(x, rank);
      stats.push_back(runner.run(Op::norm_stats, a, {&part}, {{2, rows}})[0]);
    }
    const OpTensor all = joined(stats[0], stats[1], false);
    std::vector<std::vector<OpTensor>> results;
    for (int rank = 0; rank < 2; ++rank) {
      const OpTensor part = own(x, rank), scale = own(weight, rank), shift = own(bias, rank);
      std::vector<const OpTensor*> inputs{&part, &scale, &shift, &all};
      if (a.rms_norm) inputs.erase(inputs.begin() + 2);
      results.push_back(
          runner.run(Op::norm_parts, a, inputs, {{rows, w}, {rows, a.rms_norm ? 1 : 2}}));
    }
    return results;
  }

  // Returns the gradients of x, weight and, for layer norm, bias.
  std::vector<OpTensor> gradients() const {
    const auto y = forward();
    std::vector<std::vector<OpTensor>> sums;
    for (int rank = 0; rank < 2; ++rank) {
      const OpTensor part = own(x, rank), scale = own(weight, rank), d = own(dy, rank);
      std::vector<Shape> shapes{{2, rows}, {w}};
      if (!a.rms_norm) shapes.push_back({w});
      sums.push_back(runner.run(Op::norm_parts_sums, a,
                                {&part, &scale, &y[std::size_t(rank)][1], &d}, shapes,
                                shapes.size() - 1));
    }
    OpTensor total = sums[0][0];
    for (std::int64_t i = 0; i < total.elements(); ++i)
      total.set(i, total.get(i) + sums[1][0].get(i));
    std::vector<OpTensor> dx;
    for (int rank = 0; rank < 2; ++rank) {
      const OpTensor part = own(x, rank), scale = own(weight, rank), d = own(dy, rank);
      dx.push_back(runner.run(Op::norm_parts_grad, a,
                              {&part, &scale, &y[std::size_t(rank)][1], &d, &total},
                              {{rows, w}})[0]);
    }
    std::vector<OpTensor> all{joined(dx[0], dx[1], true)};
    for (std::size_t i = 1; i < sums[0].size(); ++i) {
      OpTensor both({Shape{2 * w}, sums[0][i].type.dtype});
      for (std::int64_t c = 0; c < 2 * w; ++c) both.set(c, sums[std::size_t(c / w)][i].get(c % w));
      all.push_back(both);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("a norm whose columns lie on two ranks is the whole's, and so is its gradient",
          "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const bool rms = GENERATE(false, true);
  NormInParts norm(runner, rms);
  std::vector<const OpTensor*> inputs{&norm.x, &norm.weight, &norm.bias};
  if (rms) inputs.pop_back();
  const OpTensor whole = runner.run(rms ? Op::rms_norm : Op::layer_norm, norm.a, inputs,
                                    {{4, 6}, {4, rms ? 1 : 2}})[0];
  const auto y = [&] {
    const auto of_ranks = norm.forward();
    return joined(of_ranks[0][0], of_ranks[1][0], true);
  };
  const OpTensor in_parts = y();
  for (std::int64_t i = 0; i < whole.elements(); ++i)
    CHECK(in_parts.get(i) == Approx(whole.get(i)).epsilon(1e-12));
  const auto functional = [&] { return product_of(y(), norm.dy); };
  const std::vector<OpTensor> gradients = norm.gradients();
  CHECK(worst_difference(norm.x, gradients[0], functional) < tolerance);
  CHECK(worst_difference(norm.weight, gradients[1], functional) < tolerance);
  if (!rms) CHECK(worst_difference(norm.bias, gradients[2], functional) < tolerance);
}

TEST_CASE("parts of the columns are each rank's queries, keys and values", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.tensor_degree = 2;
  a.segments = {4, 2, 2};
  OpTensor x({Shape{1, 8}, Dtype::f64});
  for (int c = 0; c < 8; ++c) x.set(c, c);
  const OpTensor parts = runner.run(Op::columns_to_parts, a, {&x}, {{2, 4}})[0];
  const int expected[] = {0, 1, 4, 6, 2, 3, 5, 7};  // rank 0: q 0 1, k 4, v 6
  for (int i = 0; i < 8; ++i) CHECK(parts.get(i) == expected[i]);
}

TEST_CASE("ranks that share the rows add the positions of their rows", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const int h = 3, rows = 6;  // 2 ranks with 6 rows each: 3 sequences of 4
  Attributes a;
  a.micro_batch = 3;
  a.sequence_length = 4;
  a.position_offset = 1;
  a.tensor_degree = 2;
  a.sequence_parallel = true;
  const OpTensor x = runner.random({{2 * rows, h}}, 1), dy = runner.random({{2 * rows, h}}, 2);
  OpTensor table = runner.random({{6, h}}, 3);
  const auto y = [&] {
    std::vector<OpTensor> parts;
    for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
      const OpTensor own = rows_of(x, rows * runner.tensor_rank, rows);
      parts.push_back(runner.run(Op::add_position, a, {&own, &table}, {{rows, h}})[0]);
    }
    return joined(parts[0], parts[1], false);
  };
  // Row 7 is rank 1's row 1 and token 3 of sequence 1.
  CHECK(y().get(7 * h) == Approx(x.get(7 * h) + table.get((3 + 1) * h)));
  std::vector<OpTensor> gradients;
  for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
    const OpTensor own = rows_of(dy, rows * runner.tensor_rank, rows);
    gradients.push_back(runner.run(Op::add_position_grad, a, {&own}, {table.type.shape}, 1)[0]);
  }
  OpTensor sum = gradients[0];
  for (std::int64_t i = 0; i < sum.elements(); ++i) sum.set(i, sum.get(i) + gradients[1].get(i));
  CHECK(worst_difference(table, sum, [&] { return product_of(y(), dy); }) < tolerance);
}

TEST_CASE("no operation lacks a test of its gradient", "[exec][backends]") {
  // These have tests of their own above, in context_attention_test.cpp or in experts_test.cpp, or
  // are the collectives and the slice, whose gradient is a collective. Pixels have no gradient.
  const std::set<Op> elsewhere = {
      Op::cross_entropy_stats,
      Op::cross_entropy_combine,
      Op::context_pack,
      Op::context_attention,
      Op::norm_stats,
      Op::norm_parts,
      Op::mask_scores,  // its gradient is the identity: kernels_test.cpp
      Op::route,
      Op::dispatch,
      Op::combine,
      Op::image_patches};
  const std::set<Op> gradients_elsewhere = {
      Op::norm_parts_sums,
      Op::norm_parts_grad,
      Op::context_attention_grad,
      Op::context_unpack,
      Op::route_grad,
      Op::dispatch_grad,
      Op::combine_grad,
      Op::fused};  // gradients of its steps: random_graph_test.cpp
  const std::set<Op> moves_data = {Op::tensor_copy,      Op::tensor_reduce,    Op::sequence_gather,
                                   Op::sequence_scatter, Op::sequence_slice,   Op::stats_gather,
                                   Op::context_shift,    Op::context_gather,   Op::context_scatter,
                                   Op::expert_exchange,  Op::context_exchange, Op::tensor_maximum};
  // A pass adds these to graphs that already have gradients (eight_bits_test.cpp).
  const std::set<Op> rounds_to_8_bits = {Op::amax, Op::quantize, Op::transpose};
  const std::set<Op> counts = {Op::count_choices};     // experts_test.cpp
  const std::set<Op> of_frozen = {Op::widen_weights};  // weight_blocks_test.cpp
  // PyTorch computes segments.
  const std::set<Op> of_pytorch = {Op::segment, Op::segment_loss, Op::segment_grad,
                                   Op::segment_loss_grad};
  std::set<Op> in_cases;
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  for (const Case& c : small_cases()) {
    in_cases.insert(c.op);
    play(runner, c);
  }
  for (int i = 0; i < static_cast<int>(Op::embedding_grad); ++i) {
    const Op op = static_cast<Op>(i);
    INFO("forward operation " << i);
    if (rounds_to_8_bits.count(op) + counts.count(op) + of_pytorch.count(op) + of_frozen.count(op) >
        0)
      continue;
    CHECK(in_cases.count(op) + elsewhere.count(op) + moves_data.count(op) == 1);
    CHECK(backend->supports(op, Dtype::f64) ==
          (moves_data.count(op) == 0 || op == Op::sequence_slice));
  }
  for (int i = static_cast<int>(Op::embedding_grad); i < static_cast<int>(Op::zero); ++i) {
    INFO("gradient operation " << i);
    const Op op = static_cast<Op>(i);
    if (of_pytorch.contains(op)) continue;
    CHECK(runner.called.count(op) + gradients_elsewhere.count(op) + moves_data.count(op) == 1);
  }
}
