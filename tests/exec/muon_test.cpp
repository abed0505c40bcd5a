// Tests that momenta are made orthogonal, and a step with them.
#include <cmath>
#include <vector>

#include "exec/backends/cpu/orthogonal.h"
#include "exec/optimizer/optimizer.h"
#include "tests/catch.h"
#include "tests/exec/muon_cases.h"

using namespace meshwright::tests;

namespace {

std::vector<float> orthogonal(const WholeMatrix& matrix, const std::vector<float>& parts,
                              std::int64_t distance) {
  const std::int64_t size = matrix.rows * matrix.columns;
  std::vector<float> own(std::size_t(matrix.count * size / matrix.parts));
  std::vector<float> scratch(std::size_t(scratch_of(matrix)));
  ThreadPool pool(2);
  cpu::orthogonalize(pool, matrix, parts.data(), distance, own.data(), scratch.data());
  return own;
}

// Computes the published steps in double precision.
std::vector<double> reference(std::int64_t rows, std::int64_t columns,
                              const std::vector<float>& from) {
  const bool turns = rows > columns;
  const std::int64_t m = std::min(rows, columns), n = std::max(rows, columns);
  std::vector<double> x(std::size_t(m * n));
  double squares = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double value = from[std::size_t(r * columns + c)];
      x[std::size_t(turns ? c * rows + r : r * columns + c)] = value;
      squares += value * value;
    }
  for (double& value : x) value /= std::sqrt(squares) + 1e-7;
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b,
                          std::int64_t p, std::int64_t q, std::int64_t k, bool transposed) {
    std::vector<double> made(std::size_t(p * q));
    for (std::int64_t i = 0; i < p; ++i)
      for (std::int64_t j = 0; j < q; ++j)
        for (std::int64_t l = 0; l < k; ++l)
          made[std::size_t(i * q + j)] +=
              a[std::size_t(i * k + l)] * b[std::size_t(transposed ? j * k + l : l * q + j)];
    return made;
  };
  for (int step = 0; step < 5; ++step) {
    const std::vector<double> a = product(x, x, m, m, n, true), aa = product(a, a, m, m, m, false);
    std::vector<double> b(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * aa[i];
    const std::vector<double> bx = product(b, x, m, n, m, false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + bx[i];
  }
  if (!turns) return x;
  std::vector<double> back(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      back[std::size_t(r * columns + c)] = x[std::size_t(c * rows + r)];
  return back;
}

}  // namespace

TEST_CASE("five Newton-Schulz steps bring singular values near one", "[exec][optimizer]") {
  for (const auto& [rows, columns] : {std::pair{12, 30}, std::pair{30, 12}, std::pair{16, 16}}) {
    const WholeMatrix matrix{2, rows, columns};
    const std::vector<float> from = some_numbers(std::size_t(2 * rows * columns));
    const std::vector<float> made = orthogonal(matrix, from, 0);
    for (int i = 0; i < 2; ++i) {
      const auto begin = from.begin() + i * rows * columns;
      const std::vector<double> expected =
          reference(rows, columns, {begin, begin + rows * columns});
      double worst = 0, squares = 0;
      for (std::size_t j = 0; j < expected.size(); ++j) {
        const double found = made[std::size_t(i * rows * columns) + j];
        worst = std::max(worst, std::abs(found - expected[j]));
        squares += found * found;
      }
      CHECK(worst < 2e-4);  // fp32 rounding errors grow up to 3.4^5 times
      const double mean_square = squares / std::min(rows, columns);  // of singular values
      CHECK(mean_square > 0.5);
      CHECK(mean_square < 1.3);
    }
  }
}

TEST_CASE("ranks that share a matrix find the parts of what one finds", "[exec][optimizer]") {
  const std::int64_t rows = 12, columns = 24;
  const std::vector<float> whole = some_numbers(std::size_t(rows * columns));
  const std::vector<float> expected = orthogonal({1, rows, columns}, whole, 0);
  for (const WholeMatrix& cut : cut_matrices(rows, columns)) {
    const std::int64_t distance = rows * columns / cut.parts + 5;
    const std::vector<float> parts = in_parts(cut, whole, distance);
    for (int part = 0; part < cut.parts; ++part) {
      WholeMatrix own = cut;
      own.part = part;
      std::vector<float> made = orthogonal(own, parts, distance);
      made.resize(std::size_t(distance));
      const std::vector<float> wanted = in_parts(cut, expected, distance);
      for (std::int64_t i = 0; i < rows * columns / cut.parts; ++i)
        REQUIRE(made[std::size_t(i)] == wanted[std::size_t(part * distance + i)]);
    }
  }
}

TEST_CASE("muon steps by its momentum, as large as AdamW's steps", "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = OptimizerKind::muon;
  training.momentum = 0.5;
  training.weight_decay = 0.1;
  const WholeMatrix matrix{1, 3, 4};
  OptimizerSegment segment{1, 12, true};
  segment.matrix = &matrix;
  std::vector<float> weights(13, 2), gradients(13, 4), first(13, 1), update(13, -7);
  OptimizerState state{weights.data(), gradients.data(), first.data()};
  state.update = update.data();
  ThreadPool pool(1);
  const OptimizerScalars scalars{1, 0.01, 0.5};
  muon_momentum(training, scalars, {&segment, 1}, state, pool);
  CHECK(first[0] == 1);
  CHECK(update[0] == -7);
  for (std::size_t i = 1; i < 13; ++i) {
    CHECK(first[i] == 2.5F);        // 0.5 * 1 + 0.5 * 4
    CHECK(update[i] == 2 + 1.25F);  // Nesterov's: the momentum is added again
    CHECK(weights[i] == 2);
    update[i] = 0.5;
  }
  optimizer_step(training, scalars, {&segment, 1}, state, pool);
  CHECK(weights[0] == 2);
  for (std::size_t i = 1; i < 13; ++i)
    CHECK(weights[i] == Approx(2 * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 2 * 0.5));
}
