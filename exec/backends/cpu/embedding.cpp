// Looks up rows of tables (token, position and token-type embeddings), and computes the gradients
// of the tables.
#include <algorithm>

#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/tables.h"
#include "models/core/error.h"
#include "models/program/graph/context.h"

namespace meshwright::exec::cpu {

namespace {

// Columns of one piece of work on a table's gradient. All threads add to the same rows of the
// table, but each to its own columns, in the order of the tokens.
constexpr std::int64_t columns_per_piece = 128;

// Returns the row for a token in this rank's part of the table, or -1 if another rank has the row.
std::int64_t local_row(const KernelCall& k, std::int32_t token, std::int64_t table_rows) {
  if (!k.attributes().vocabulary_parallel) {
    MESHWRIGHT_CHECK(token >= 0 && token < table_rows, "a token is in the table");
    return token;
  }
  const std::int64_t row = token - k.context.tensor_rank * table_rows;
  return row >= 0 && row < table_rows ? row : -1;
}

// Returns the row of the position table for row r of x. With sequence parallelism the rows of x are
// this rank's share of the rows.
std::int64_t position_of(const KernelCall& k, std::int64_t r) {
  const Attributes& a = k.attributes();
  const std::int64_t global =
      k.first_row() + r + (a.sequence_parallel ? k.context.tensor_rank * k.whole_rows() : 0);
  const std::int64_t s = a.sequence_length;
  const std::int64_t place =
      context_position(a.context_degree, k.context.context_rank, s, global % s);
  const std::int32_t* documents = k.documents();
  return place - (documents == nullptr ? 0 : documents[global]) + a.position_offset;
}

}  // namespace

template <typename T>
void embedding(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0).elements(), h = k.in_shape(1)[1];
  const std::int64_t table_rows = k.in_shape(1)[0];
  const std::int32_t* tokens = k.in<std::int32_t>(0);
  const T* table = k.in<T>(1);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const std::int64_t row = local_row(k, tokens[r], table_rows);
    if (row < 0)
      std::fill_n(y + r * h, h, T(0));
    else
      std::copy_n(table + row * h, h, y + r * h);
  });
}

template <typename T>
void embedding_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0).elements(), h = k.in_shape(1)[1];
  const std::int64_t table_rows = k.out_shape(0)[0];
  const std::int32_t* tokens = k.in<std::int32_t>(0);
  const T* dy = k.in<T>(1);
  T* table = k.out<T>(0);
  parallel_for(k.pool, h, columns_per_piece, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = local_row(k, tokens[r], table_rows);
      if (row < 0) continue;
      T* to = table + row * h;
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) to[c] += dy[r * h + c];
    }
  });
}

template <typename T>
void add_position(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* table = k.in<T>(1);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T* row = table + position_of(k, r) * h;
#pragma omp simd
    for (std::int64_t c = 0; c < h; ++c) y[r * h + c] = x[r * h + c] + row[c];
  });
}

template <typename T>
void add_position_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* dy = k.in<T>(0);
  T* table = k.out<T>(0);
  parallel_for(k.pool, h, columns_per_piece, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      T* to = table + position_of(k, r) * h;
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) to[c] += dy[r * h + c];
    }
  });
}

template <typename T>
void add_row(const KernelCall& k) {
  add_to_each_row<T>(k);
}

// Adds the sum of all rows of dy to the gradient of row 0 of the table, its only used row.
template <typename T>
void add_row_grad(const KernelCall& k) {
  const std::int64_t h = k.in_shape(0)[1];
  const T* dy = k.in<T>(0);
  add_column_sums<T>(k, k.in_shape(0)[0], h, 0,
                     [=](std::int64_t r, std::int64_t c) { return dy[r * h + c]; });
}

constexpr Row rows[] = {
    MESHWRIGHT_MOVING_ROW(embedding), MESHWRIGHT_CPU_ROW(embedding_grad),
    MESHWRIGHT_CPU_ROW(add_position), MESHWRIGHT_CPU_ROW(add_position_grad),
    MESHWRIGHT_CPU_ROW(add_row),      MESHWRIGHT_CPU_ROW(add_row_grad),
};

std::span<const Row> embedding_rows() { return rows; }

}  // namespace meshwright::exec::cpu
