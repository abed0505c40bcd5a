// Tests that dropout drops the share asked for, and the same elements however the work is split.
#include <cmath>

#include "exec/backends/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/exec/op_runner.h"

using namespace meshwright::tests;

namespace {

constexpr int sequences = 4, length = 16, width = 50;

Attributes dropping(double share, std::uint64_t key) {
  Attributes a;
  a.micro_batch = sequences;
  a.sequence_length = length;
  a.dropout = share;
  a.dropout_key = key;
  return a;
}

OpTensor ones(std::int64_t rows) {
  OpTensor x({{rows, width}, Dtype::f64});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 1);
  return x;
}

OpTensor dropped(Runner& runner, const Attributes& a, std::int64_t rows = sequences * length) {
  const OpTensor x = ones(rows);
  return runner.run(Op::dropout, a, {&x}, {{rows, width}})[0];
}

// Returns the correlation of "kept" between two masks of equal share, which is about 0 for
// independent ones.
double correlation(const OpTensor& a, const OpTensor& b) {
  double both = 0, in_a = 0, in_b = 0;
  const double n = static_cast<double>(a.elements());
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    both += a.get(i) > 0 && b.get(i) > 0;
    in_a += a.get(i) > 0;
    in_b += b.get(i) > 0;
  }
  const double p = in_a / n, q = in_b / n;
  return (both / n - p * q) / std::sqrt(p * (1 - p) * q * (1 - q));
}

// The correlation of n independent pairs has the standard deviation 1 / sqrt(n).
const double four_deviations = 4 / std::sqrt(double{sequences} * length * width);

}  // namespace

TEST_CASE("dropout drops the share that it is told and keeps the mean", "[exec][dropout]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  const double share = GENERATE(0.1, 0.5, 0.9);
  const OpTensor y = dropped(runner, dropping(share, 5));
  const double n = static_cast<double>(y.elements());
  double zeros = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    if (y.get(i) == 0)
      ++zeros;
    else
      CHECK(y.get(i) == Approx(1 / (1 - share)));
  }
  // The share of n draws, which is binomial, has the standard deviation sqrt(p (1 - p) / n).
  CHECK(std::abs(zeros / n - share) < 4 * std::sqrt(share * (1 - share) / n));
}

TEST_CASE("masks of other steps, modules, seeds and neighbours are independent",
          "[exec][dropout]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const OpTensor first = dropped(runner, dropping(0.4, 5));
  CHECK(correlation(first, dropped(runner, dropping(0.4, 6))) == Approx(0).margin(four_deviations));
  runner.first_sequence = sequences;  // the next step's
  CHECK(correlation(first, dropped(runner, dropping(0.4, 5))) == Approx(0).margin(four_deviations));
  runner.first_sequence = 0;
  OpTensor moved = first;  // moved by one column
  for (std::int64_t i = 1; i < moved.elements(); ++i) moved.set(i, first.get(i - 1));
  CHECK(correlation(first, moved) == Approx(0).margin(four_deviations));
}

TEST_CASE("a micro-batch, a share of the rows and the whole drop the same elements",
          "[exec][dropout]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a = dropping(0.4, 5);
  const OpTensor whole = dropped(runner, a);
  a.sequence_parallel = true;
  a.tensor_degree = 4;
  const std::int64_t rows = sequences * length / 4;
  for (runner.tensor_rank = 0; runner.tensor_rank < 4; ++runner.tensor_rank) {
    const OpTensor part = dropped(runner, a, rows);
    for (std::int64_t i = 0; i < part.elements(); ++i)
      CHECK(part.get(i) == whole.get(runner.tensor_rank * part.elements() + i));
  }
  runner.tensor_rank = 0;
  Attributes one = dropping(0.4, 5);
  one.micro_batch = 1;
  for (runner.first_sequence = 0; runner.first_sequence < sequences; ++runner.first_sequence) {
    const OpTensor part = dropped(runner, one, length);
    for (std::int64_t i = 0; i < part.elements(); ++i)
      CHECK(part.get(i) == whole.get(runner.first_sequence * part.elements() + i));
  }
}

TEST_CASE("fused and unfused attention and ranks of heads drop the same probabilities",
          "[exec][dropout]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const int s = 131, heads = 4, dim = 3;  // more than one tile of 128
  Attributes a = dropping(0.3, 9);
  a.micro_batch = 1;
  a.sequence_length = s;
  a.heads = a.kv_heads = heads;
  a.head_dim = dim;
  const OpTensor q = runner.random({{s, heads * dim}}, 1), k = runner.random({{s, heads * dim}}, 2),
                 v = runner.random({{s, heads * dim}}, 3);
  a.attention = AttentionKernel::unfused;
  const OpTensor unfused =
      runner.run(Op::attention, a, {&q, &k, &v}, {{s, heads * dim}, {heads, s, s}})[0];
  a.attention = AttentionKernel::flash2;
  const OpTensor fused =
      runner.run(Op::attention, a, {&q, &k, &v}, {{s, heads * dim}, {heads, s}})[0];
  for (std::int64_t i = 0; i < fused.elements(); ++i)
    CHECK(fused.get(i) == Approx(unfused.get(i)).margin(1e-12));

  a.heads = a.kv_heads = heads / 2;
  a.tensor_degree = 2;
  const std::int64_t columns = heads / 2 * dim;
  for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
    const auto own = [&](const OpTensor& all) {
      OpTensor part({{s, columns}, Dtype::f64});
      for (std::int64_t i = 0; i < part.elements(); ++i)
        part.set(i,
                 all.get(i / columns * 2 * columns + runner.tensor_rank * columns + i % columns));
      return part;
    };
    const OpTensor own_q = own(q), own_k = own(k), own_v = own(v), expected = own(fused);
    const OpTensor y =
        runner.run(Op::attention, a, {&own_q, &own_k, &own_v}, {{s, columns}, {heads / 2, s}})[0];
    for (std::int64_t i = 0; i < y.elements(); ++i)
      CHECK(y.get(i) == Approx(expected.get(i)).margin(1e-12));
  }
}
