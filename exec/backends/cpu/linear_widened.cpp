// Matrix products of operands stored in 16 bits, or of factors in 8 or 4 bits. Blocks of both
// factors are widened, the product of two blocks is an fp32 matmul, and sums over k stay in fp32
// until they are complete.
#include <algorithm>

#include "exec/backends/cpu/gemm.h"
#include "exec/backends/cpu/widened.h"
#include "exec/core/eight_bits.h"
#include "exec/core/four_bits.h"
#include "exec/core/half.h"
#include "models/program/graph/quantized.h"
#include "models/program/graph/widen.h"

namespace meshwright::exec::cpu {

namespace {

// A part of a matrix: `rows` by `columns` elements from (row0, column0) on.
struct Block {
  std::int64_t row0 = 0, column0 = 0, rows = 0, columns = 0;
};

// A matrix in memory, and scratch memory for one of its blocks.
struct Stored {
  std::byte* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t row = 0;  // elements from one row to the next
  float* wide = nullptr;
  const void* scales = nullptr;  // f32 for 8-bit elements, e4m3 for 4-bit ones
  std::int64_t scales_across = 0;
  ScaleBlock block_of_scale = {};

  bool is_narrow() const { return is_16_bit(dtype) || is_quantized(dtype); }
  std::byte* at(std::int64_t r, std::int64_t c) const {
    return data + (r * row + c) * bits_of(dtype) / 8;
  }
  float scale_of(std::int64_t r, std::int64_t block) const {
    const std::int64_t i = r / block_of_scale.rows * scales_across + block;
    if (dtype != Dtype::e2m1) return static_cast<const float*>(scales)[i];
    float scale = 0;
    widen_8_bits(static_cast<const std::uint8_t*>(scales) + i, Dtype::e4m3, 1, 1, &scale);
    return scale;
  }
};

// A block of a matrix as fp32, with `row` elements from one row to the next.
struct View {
  float* data;
  std::int64_t row;
};

template <typename Convert>
void for_each_row(ThreadPool& pool, const Block& block, const Convert& convert) {
  parallel_for(pool, block.rows, rows_per_piece(block.columns),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) convert(r);
               });
}

// Writes to `to` part of a row of 8-bit or 4-bit elements, each times the scale of its block.
void widen_scaled(const Stored& matrix, std::int64_t r, std::int64_t column, std::int64_t columns,
                  float* to) {
  const std::int64_t width = matrix.block_of_scale.columns, end = column + columns;
  while (column < end) {
    const std::int64_t block = column / width, next = std::min(end, (block + 1) * width);
    const auto* from = reinterpret_cast<const std::uint8_t*>(matrix.at(r, column));
    const float scale = matrix.scale_of(r, block);
    if (matrix.dtype == Dtype::e2m1)
      widen_4_bits(from, next - column, scale, to);
    else
      widen_8_bits(from, matrix.dtype, next - column, scale, to);
    to += next - column;
    column = next;
  }
}

View load(ThreadPool& pool, const Stored& matrix, const Block& block, bool needed = true) {
  if (!matrix.is_narrow())
    return {reinterpret_cast<float*>(matrix.at(block.row0, block.column0)), matrix.row};
  if (needed)
    for_each_row(pool, block, [&](std::int64_t r) {
      if (matrix.scales != nullptr)
        return widen_scaled(matrix, block.row0 + r, block.column0, block.columns,
                            matrix.wide + r * block.columns);
      widen(matrix.at(block.row0 + r, block.column0), matrix.dtype, block.columns,
            matrix.wide + r * block.columns);
    });
  return {matrix.wide, block.columns};
}

void store(ThreadPool& pool, const Stored& matrix, const Block& block) {
  if (!matrix.is_narrow()) return;
  for_each_row(pool, block, [&](std::int64_t r) {
    narrow(matrix.wide + r * block.columns, matrix.dtype, block.columns,
           matrix.at(block.row0 + r, block.column0));
  });
}

// Returns the block of the stored matrix that holds the block `of_op` of op(matrix).
Block block_of(bool transposed, const Block& of_op) {
  if (!transposed) return of_op;
  return {of_op.column0, of_op.row0, of_op.columns, of_op.rows};
}

class WidenedProduct {
 public:
  explicit WidenedProduct(const KernelCall& k)
      : pool_(k.pool), form_(product_of(k.call)), blocks_(blocks_of(form_)) {
    auto* scratch = static_cast<std::byte*>(k.context.workspace);
    const auto reserve = [&](bool wanted, std::int64_t elements) -> float* {
      if (!wanted) return nullptr;
      float* place = reinterpret_cast<float*>(scratch);
      scratch += widened_bytes_of(elements);
      return place;
    };
    const auto stored = [&](const TensorType& type, const void* data, std::int64_t elements) {
      Stored made{const_cast<std::byte*>(static_cast<const std::byte*>(data)), type.dtype,
                  type.shape[1]};
      made.wide = reserve(made.is_narrow(), elements);
      return made;
    };
    const auto factor = [&](std::size_t i, std::int64_t elements) {
      const TensorType& type = k.call.inputs[i];
      Stored made = stored(type, k.operands.inputs[i], elements);
      if (!is_quantized(type.dtype)) return made;
      const Shape& scales = k.in_shape(scale_input(i));
      made.scales = k.operands.inputs[scale_input(i)];
      if (type.dtype == Dtype::e2m1) alpha_ /= tensor_factor(*k.in<float>(largest_input(i)));
      made.scales_across = scales[1];
      made.block_of_scale = scale_block(type.shape, scales);
      return made;
    };
    a_ = factor(form_.a, blocks_.m * blocks_.k);
    b_ = factor(form_.b, blocks_.k * blocks_.n);
    c_ = stored(k.call.outputs[0], k.operands.outputs[0], blocks_.m * blocks_.n);
    if (!has_bias(k.call)) return;
    const std::size_t bias = bias_input(k.call);
    bias_ = static_cast<const std::byte*>(k.operands.inputs[bias]);
    bias_type_ = k.call.inputs[bias].dtype;
    wide_bias_ = reserve(true, blocks_.n);
  }

  void run() {
    for (std::int64_t m0 = 0; m0 < form_.m; m0 += blocks_.m)
      for (std::int64_t n0 = 0; n0 < form_.n; n0 += blocks_.n) {
        const Block c{m0, n0, std::min(blocks_.m, form_.m - m0), std::min(blocks_.n, form_.n - n0)};
        make(c);
      }
  }

 private:
  void make(const Block& c) {
    const View sum = load(pool_, c_, c, form_.adds);
    if (bias_ != nullptr)
      widen(bias_ + c.column0 * bytes_of(bias_type_), bias_type_, c.columns, wide_bias_);
    for (std::int64_t k0 = 0; k0 < form_.k; k0 += blocks_.k) {
      const std::int64_t depth = std::min(blocks_.k, form_.k - k0);
      const bool a_is_there = form_.k <= blocks_.k && c.column0 > 0;  // from the block to the left
      const View a =
          load(pool_, a_, block_of(form_.transpose_a, {c.row0, k0, c.rows, depth}), !a_is_there);
      const View b =
          load(pool_, b_, block_of(form_.transpose_b, {k0, c.column0, depth, c.columns}));
      const bool first = k0 == 0;
      multiply<float>(pool_,
                      {.m = c.rows,
                       .n = c.columns,
                       .k = depth,
                       .a = {a.data, a.row, form_.transpose_a},
                       .b = {b.data, b.row, form_.transpose_b},
                       .c = sum.data,
                       .c_row = sum.row,
                       .alpha = alpha_,
                       .beta = first && !form_.adds ? 0.0F : 1.0F},
                      first && bias_ != nullptr ? wide_bias_ : nullptr);
    }
    store(pool_, c_, c);
  }

  ThreadPool& pool_;
  LinearProduct form_;
  ProductBlocks blocks_;
  Stored a_, b_, c_;
  float alpha_ = 1;  // factor of sums of 4-bit elements
  const std::byte* bias_ = nullptr;
  Dtype bias_type_ = Dtype::f32;
  float* wide_bias_ = nullptr;
};

}  // namespace

void multiply_widened(const KernelCall& call) { WidenedProduct(call).run(); }

}  // namespace meshwright::exec::cpu
