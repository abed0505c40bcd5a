#include "exec/optimizer/adafactor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "exec/optimizer/factors.h"
#include "exec/optimizer/tiles.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t grain = 1 << 15;  // elements: long enough to hide handing a piece out

// Writes the gradients of elements [at, at + count) of a bucket, at most a tile, in fp32 and as
// gradient_of() returns them.
void read_gradients(const OptimizerState& state, const Factors& factors, std::int64_t at,
                    std::int64_t count, float* to) {
  widen(static_cast<const std::byte*>(state.gradients) + at * bytes_of(state.gradient_type),
        state.gradient_type, count, to);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = gradient_of(factors, to[i]);
}

// The rows of a rank's part of a matrix that a segment covers, first() to end() - 1. The first and
// the last of them may be covered in part.
struct Rows {
  std::int64_t begin, count;  // the segment, in elements of the part
  std::int64_t width;
  std::int64_t first() const { return begin / width; }
  std::int64_t end() const { return (begin + count + width - 1) / width; }
  // Returns the columns [from, to) of a row that the segment covers, within [low, high).
  std::pair<std::int64_t, std::int64_t> columns(std::int64_t row, std::int64_t low,
                                                std::int64_t high) const {
    return {std::max(low, begin - row * width), std::min(high, begin + count - row * width)};
  }
};

// Adds the squares of the gradients of each row to the row's sum. One thread sums a row.
void sum_rows(const OptimizerSegment& segment, const Rows& rows, const OptimizerState& state,
              const Factors& factors, std::int64_t shift, ThreadPool& pool) {
  const AdafactorParameter& of = *segment.adafactor;
  const std::int64_t many = std::max<std::int64_t>(1, grain / rows.width);
  parallel_for(pool, rows.end() - rows.first(), many, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, tile> gradients;
    for (std::int64_t row = rows.first() + begin; row < rows.first() + end; ++row) {
      const std::int64_t place = whole_place(of.places, row * rows.width).place;
      if (place >= of.rows * of.columns) continue;  // padding
      const auto [from, to] = rows.columns(row, 0, rows.width);
      double sum = 0;
      for (std::int64_t at = from; at < to; at += tile) {
        const std::int64_t count = std::min(tile, to - at);
        read_gradients(state, factors, row * rows.width + at + shift, count, gradients.data());
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < count; ++i) {
          const double g = gradients[i];
          sum += g * g;
        }
      }
      segment.factor_sums[place / of.columns] += sum;
    }
  });
}

// Adds the squares of the gradients of each column to the column's sum. One thread sums 64 columns,
// row after row.
void sum_columns(const OptimizerSegment& segment, const Rows& rows, const OptimizerState& state,
                 const Factors& factors, std::int64_t shift, ThreadPool& pool) {
  constexpr std::int64_t columns = 64;
  const AdafactorParameter& of = *segment.adafactor;
  const std::int64_t first = whole_place(of.places, 0).place / of.columns * of.columns;
  parallel_for(pool, rows.width, columns, [&](std::int64_t low, std::int64_t high) {
    std::array<float, columns> gradients;
    std::array<double, columns> sums{};
    for (std::int64_t row = rows.first(); row < rows.end(); ++row) {
      if (whole_place(of.places, row * rows.width).place >= of.rows * of.columns) continue;
      const auto [from, to] = rows.columns(row, low, high);
      if (from >= to) continue;
      read_gradients(state, factors, row * rows.width + from + shift, to - from, gradients.data());
      double* of_row = sums.data() + (from - low);
      for (std::int64_t i = 0; i < to - from; ++i) {
        const double g = gradients[i];
        of_row[i] += g * g;
      }
    }
    for (std::int64_t column = low; column < high; ++column) {
      const std::int64_t whole = whole_place(of.places, column).place - first;
      if (whole < of.columns)  // else padding
        segment.factor_sums[of.rows + whole] += sums[column - low];
    }
  });
}

// Updates the factors from this step's sums. Then replaces the sums by the factors that multiply
// the gradients of a row, and of a column.
void move_factors(const OptimizerSegment& segment, const Factors& c, const Adafactor& settings) {
  const AdafactorParameter& of = *segment.adafactor;
  float* factors = segment.factors;
  double* sums = segment.factor_sums;
  const auto mean = [&](std::int64_t first, std::int64_t count, std::int64_t summed) {
    double all = 0;
    for (std::int64_t i = first; i < first + count; ++i) {
      const double square = sums[i] / static_cast<double>(summed) + settings.eps1;
      factors[i] += c.factor_moves * (static_cast<float>(square) - factors[i]);
      all += factors[i];
    }
    return all / static_cast<double>(count);
  };
  const double of_rows = mean(0, of.rows, of.columns);
  mean(of.rows, of.columns, of.rows);
  for (std::int64_t i = 0; i < of.rows; ++i) sums[i] = std::sqrt(of_rows / factors[i]);
  for (std::int64_t i = of.rows; i < of.rows + of.columns; ++i)
    sums[i] = 1 / std::sqrt(static_cast<double>(factors[i]));
}

// Turns the gradients of elements [begin, begin + count) of the part, in `update`, into the update
// u, which still lacks clipping and the learning rate.
void scale_by_factors(const OptimizerSegment& segment, std::int64_t begin, std::int64_t count,
                      float* update) {
  const AdafactorParameter& of = *segment.adafactor;
  for (std::int64_t done = 0; done < count;) {
    const WholePlace run = whole_place(of.places, begin + done);
    const std::int64_t row = run.place / of.columns, column = run.place % of.columns;
    const std::int64_t here = std::min({count - done, run.count, of.columns - column});
    const double* columns = segment.factor_sums + of.rows + column;
    const auto of_row =
        row < of.rows ? static_cast<float>(segment.factor_sums[row]) : 0.0F;  // padding
#pragma omp simd
    for (std::int64_t i = 0; i < here; ++i)
      update[done + i] *= of_row * static_cast<float>(columns[i]);
    done += here;
  }
}

struct Sums {
  double weights = 0, update = 0;
};

// Writes the update u of elements [at, at + count) of the bucket, which still lacks clipping and
// the learning rate. If `moves` is set, second moments are updated first. Factors must be up to
// date.
void make_update(const OptimizerSegment& segment, const OptimizerState& state, const Factors& c,
                 const Adafactor& settings, bool moves, std::int64_t at, std::int64_t count,
                 float* update) {
  read_gradients(state, c, at, count, update);
  if (segment.adafactor->rows > 0)
    return scale_by_factors(segment, segment.first + (at - segment.begin), count, update);
  float* second = static_cast<float*>(state.second_moment) + at;
  const auto eps1 = static_cast<float>(settings.eps1);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = update[i];
    if (moves) second[i] += c.factor_moves * (g * g + eps1 - second[i]);
    update[i] = second[i] > 0 ? g / std::sqrt(second[i]) : 0;
  }
}

}  // namespace

void adafactor_sums(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool) {
  const Factors factors = factors_of(training, scalars);
  for (const OptimizerSegment& segment : segments) {
    const AdafactorParameter& of = *segment.adafactor;
    if (of.rows == 0 || !segment.counted) continue;
    const Rows rows{segment.first, segment.count, of.width};
    const std::int64_t shift = segment.begin - segment.first;  // from the part to the bucket
    sum_rows(segment, rows, state, factors, shift, pool);
    sum_columns(segment, rows, state, factors, shift, pool);
  }
}

void adafactor_norms(const StepSettings& training, const OptimizerScalars& scalars,
                     std::span<const OptimizerSegment> segments, const OptimizerState& state,
                     ThreadPool& pool) {
  const Factors factors = factors_of(training, scalars);
  constexpr std::int64_t pieces = 256;
  for (const OptimizerSegment& segment : segments) {
    if (segment.adafactor->rows > 0) move_factors(segment, factors, training.adafactor);
    std::array<Sums, pieces> partial{};
    const std::int64_t each = (segment.count + pieces - 1) / pieces;
    parallel_for(pool, segment.count, each, [&](std::int64_t begin, std::int64_t end) {
      Sums& sum = partial[begin / each];
      Tile wide;
      std::array<float, tile> update;
      for (std::int64_t at = segment.begin + begin; at < segment.begin + end; at += tile) {
        const std::int64_t count = std::min(tile, segment.begin + end - at);
        make_update(segment, state, factors, training.adafactor, true, at, count, update.data());
        const float* weights = read_weights(state, wide, at, count);
        for (std::int64_t i = 0; i < count; ++i) {
          const double w = weights[i], u = update[i];
          sum.weights += w * w;
          sum.update += u * u;
        }
      }
    });
    if (!segment.counted) continue;
    for (const Sums& sum : partial) {
      segment.norms[0] += sum.weights;
      segment.norms[1] += sum.update;
    }
  }
}

void adafactor_step(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool) {
  const Factors factors = factors_of(training, scalars);
  for (const OptimizerSegment& segment : segments) {
    const AdafactorSizes sizes = sizes_of(training.adafactor, factors.factor_rate, segment.norms,
                                          static_cast<double>(segment.adafactor->elements));
    const float shrink = 1 - sizes.rate * (segment.decay ? factors.decay : 0);
    parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      Tile wide;
      std::array<float, tile> update;
      for (std::int64_t at = segment.begin + begin; at < segment.begin + end; at += tile) {
        const std::int64_t count = std::min(tile, segment.begin + end - at);
        make_update(segment, state, factors, training.adafactor, false, at, count, update.data());
        float* weights = read_weights(state, wide, at, count);
        float* average =
            state.average == nullptr ? nullptr : static_cast<float*>(state.average) + at;
        for (std::int64_t i = 0; i < count; ++i)
          weights[i] = weights[i] * shrink - sizes.update * update[i];
        if (average != nullptr) move_average(factors, weights, count, average);
        write_weights(state, wide, weights, at, count);
      }
    });
  }
}

}  // namespace meshwright::exec
