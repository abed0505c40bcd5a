#include "exec/backends/cpu/gemm.h"

#include <algorithm>

namespace meshwright::exec::cpu {

namespace {

// Returns the part of product p that computes `rows` by `columns` elements of c, from (row0,
// column0) on.
template <typename T>
Product<T> part(Product<T> p, std::int64_t row0, std::int64_t rows, std::int64_t column0,
                std::int64_t columns) {
  p.a.data += p.a.transposed ? row0 : row0 * p.a.row;
  p.b.data += p.b.transposed ? column0 * p.b.row : column0;
  p.c += row0 * p.c_row + column0;
  p.m = rows;
  p.n = columns;
  return p;
}

template <typename T>
void multiply_part(Product<T> p, const T* row) {
  if (row != nullptr) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      T* to = p.c + i * p.c_row;
      if (p.beta == T(0))
        std::copy_n(row, p.n, to);
      else
        for (std::int64_t c = 0; c < p.n; ++c) to[c] += row[c];
    }
    p.beta = 1;
  }
  multiply(p);
}

// Returns the rows or columns of one piece of work. Pieces are so long that packing the shared
// operand again for each piece costs little.
std::int64_t piece_length(std::int64_t length) {
  constexpr std::int64_t shortest = 192, longest = 4096, multiple = 64, wanted_pieces = 4;
  const std::int64_t even = (length + wanted_pieces - 1) / wanted_pieces;
  const std::int64_t rounded = (even + multiple - 1) / multiple * multiple;
  return std::clamp(rounded, shortest, longest);
}

}  // namespace

template <typename T>
void multiply(ThreadPool& pool, const Product<T>& product, const T* row) {
  const bool by_columns = product.n >= product.m;
  const std::int64_t length = by_columns ? product.n : product.m;
  parallel_for(pool, length, piece_length(length), [&](std::int64_t begin, std::int64_t end) {
    if (by_columns)
      multiply_part(part(product, 0, product.m, begin, end - begin),
                    row == nullptr ? nullptr : row + begin);
    else
      multiply_part(part(product, begin, end - begin, 0, product.n), row);
  });
}

template void multiply<float>(ThreadPool&, const Product<float>&, const float*);
template void multiply<double>(ThreadPool&, const Product<double>&, const double*);

}  // namespace meshwright::exec::cpu
