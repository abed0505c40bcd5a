// Sums of tensors, dropout, and copies of chosen rows and columns.
#include <algorithm>
#include <array>

#include "exec/backends/cpu/dropout.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/tables.h"
#include "models/core/error.h"
#include "models/program/graph/context.h"

namespace meshwright::exec::cpu {

template <typename T>
void add(const KernelCall& k) {
  map_two<T>(k, [](T a, T b) { return a + b; });
}

// Applies dropout in forward and backward alike: the gradient drops the same elements.
template <typename T>
void dropout(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1], s = a.sequence_length;
  const std::int64_t first_row =
      k.first_row() + (a.sequence_parallel ? k.context.tensor_rank * k.whole_rows() : 0);
  const std::int64_t first_column = a.hidden_share ? k.context.tensor_rank * h : 0;
  const std::int64_t first_sequence = k.context.first_sequence;
  const int context_degree = a.context_degree, context_rank = k.context.context_rank;
  const Dropout mask(a);
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const std::int64_t row = first_row + r;
    mask.apply(x + r * h, y + r * h, h, first_sequence + row / s,
               context_position(context_degree, context_rank, s, row % s), first_column);
  });
}

namespace {

// Returns the row of x for the i-th chosen position. Positions count within their sequence.
std::int64_t chosen_row(const std::int32_t* positions, std::int64_t i, std::int64_t per_sequence,
                        std::int64_t sequence_length) {
  const std::int64_t position = positions[i];
  MESHWRIGHT_CHECK(position >= 0 && position < sequence_length, "positions are in the sequence");
  return i / per_sequence * sequence_length + position;
}

}  // namespace

template <typename T>
void select_positions(const KernelCall& k) {
  const std::int64_t h = k.in_shape(0)[1], chosen = k.out_shape(0)[0];
  const std::int64_t s = k.attributes().sequence_length, p = k.in_shape(1)[-1];
  const T* x = k.in<T>(0);
  const std::int32_t* positions = k.in<std::int32_t>(1);
  T* y = k.out<T>(0);
  parallel_for(k.pool, chosen, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(x + chosen_row(positions, i, p, s) * h, h, y + i * h);
  });
}

// Writes for each row of x the sum of the gradients of the choices of its position, or 0. Because a
// position may be chosen twice, the threads split the columns instead of the rows.
template <typename T>
void select_positions_grad(const KernelCall& k) {
  const std::int64_t h = k.in_shape(0)[1], chosen = k.in_shape(0)[0], rows = k.out_shape(0)[0];
  const std::int64_t s = k.attributes().sequence_length, p = k.in_shape(1)[-1];
  const T* dy = k.in<T>(0);
  const std::int32_t* positions = k.in<std::int32_t>(1);
  T* dx = k.out<T>(0);
  constexpr std::int64_t columns = 256;
  parallel_for(k.pool, h, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill(dx + r * h + begin, dx + r * h + end, T(0));
    for (std::int64_t i = 0; i < chosen; ++i) {
      T* to = dx + chosen_row(positions, i, p, s) * h;
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) to[c] += dy[i * h + c];
    }
  });
}

template <typename T>
void sequence_slice(const KernelCall& k) {
  const std::int64_t h = k.out_shape(0)[1], rows = k.out_shape(0)[0];
  const T* x = k.in<T>(0) + k.context.tensor_rank * rows * h;
  T* y = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    std::copy(x + begin * h, x + end * h, y + begin * h);
  });
}

namespace {

// Calls visit(at, part, offset, count) for each run of columns [at, at + count) of a whole row that
// is contiguous in the row of one part, where it begins at `offset`.
template <typename Visit>
void for_each_run(const Attributes& a, std::int64_t columns, const Visit& visit) {
  const std::int64_t ranks = a.tensor_degree;
  std::array<std::int64_t, 3> segments = a.segments;
  if (segments[0] == 0) segments[0] = columns;
  std::int64_t at = 0, offset = 0;
  for (const std::int64_t segment : segments) {
    const std::int64_t count = segment / ranks;
    for (std::int64_t part = 0; part < ranks && count > 0; ++part)
      visit(at + part * count, part, offset, count);
    at += segment;
    offset += count;
  }
}

}  // namespace

template <typename T>
void columns_to_parts(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], c = k.in_shape(0)[1];
  const Attributes& a = k.attributes();
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  const std::int64_t w = k.out_shape(0)[1];
  parallel_for(k.pool, rows, rows_per_piece(c), [=, &a](std::int64_t begin, std::int64_t end) {
    for_each_run(a, c,
                 [&](std::int64_t at, std::int64_t part, std::int64_t offset, std::int64_t count) {
                   for (std::int64_t r = begin; r < end; ++r)
                     std::copy_n(x + r * c + at, count, y + (part * rows + r) * w + offset);
                 });
  });
}

template <typename T>
void parts_to_columns(const KernelCall& k) {
  const std::int64_t rows = k.out_shape(0)[0], c = k.out_shape(0)[1];
  const Attributes& a = k.attributes();
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  const std::int64_t w = k.in_shape(0)[1];
  parallel_for(k.pool, rows, rows_per_piece(c), [=, &a](std::int64_t begin, std::int64_t end) {
    for_each_run(a, c,
                 [&](std::int64_t at, std::int64_t part, std::int64_t offset, std::int64_t count) {
                   for (std::int64_t r = begin; r < end; ++r)
                     std::copy_n(x + (part * rows + r) * w + offset, count, y + r * c + at);
                 });
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(columns_to_parts),
    MESHWRIGHT_CPU_ROW(parts_to_columns),
    MESHWRIGHT_CPU_ROW(add),
    MESHWRIGHT_CPU_ROW(dropout),
    {Op::dropout_grad, dropout<float>, dropout<double>},
    MESHWRIGHT_MOVING_ROW(select_positions),
    MESHWRIGHT_CPU_ROW(select_positions_grad),
    MESHWRIGHT_MOVING_ROW(sequence_slice),
};

std::span<const Row> elementwise_rows() { return rows; }

}  // namespace meshwright::exec::cpu
