// Rounding of tensors to 8 bits, their largest elements and their transposition, and widening of
// weights that are stored in 4 bits. Rounding to 4 bits is in quantized_4_bits.cpp.
#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include "exec/backends/cpu/quantized.h"
#include "exec/backends/cpu/tables.h"
#include "exec/core/eight_bits.h"
#include "exec/core/half.h"
#include "models/core/error.h"
#include "models/program/graph/quantized.h"

namespace meshwright::exec::cpu {

namespace {

// Rounds a matrix to 8 bits. Output `first` gets the elements and the next output their scales.
template <typename T>
class Rounding {
 public:
  Rounding(const KernelCall& k, const MatrixSource<T>& source, std::size_t first)
      : k_(k),
        source_(source),
        rows_(rows_of_scales(k.out_shape(first))),
        columns_(k.out_shape(first)[-1]),
        strips_(k.out_shape(first + 1)[0]),
        blocks_across_(k.out_shape(first + 1)[1]),
        block_(scale_block(k.out_shape(first), k.out_shape(first + 1))),
        bits_(k.out<std::uint8_t>(first)),
        scales_(k.out<float>(first + 1)),
        factors_(strips_ * blocks_across_) {}

  void run() {
    if (k_.call.inputs.size() > 1)
      set_factor(0, *k_.in<float>(1));
    else
      find_factors();
    parallel_for(k_.pool, rows_, rows_per_piece(columns_),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<float> row(columns_);
                   for (std::int64_t r = begin; r < end; ++r) round_row(r, row.data());
                 });
  }

 private:
  void set_factor(std::int64_t block, float largest) {
    const Attributes& a = k_.attributes();
    const float factor = a.scales_of_before && largest == 0
                             ? first_factor(a.scale)
                             : factor_to_8_bits(largest, a.made, a.scales_are_powers);
    factors_[block] = factor;
    scales_[block] = 1 / factor;
  }

  // Finds the factor of each block from the block's largest element.
  void find_factors() {
    parallel_for(k_.pool, strips_, rows_per_piece(block_.rows * columns_),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<float> row(columns_);
                   for (std::int64_t strip = begin; strip < end; ++strip)
                     find_factors(strip, row.data());
                 });
  }

  void find_factors(std::int64_t strip, float* row) {
    std::vector<std::uint32_t> largest(blocks_across_, 0);
    for (std::int64_t r = strip * block_.rows; r < (strip + 1) * block_.rows; ++r) {
      source_.copy_row(r, columns_, row);
      for (std::size_t b = 0; b < largest.size(); ++b)
        largest[b] = std::max(
            largest[b],
            largest_bits(row + static_cast<std::int64_t>(b) * block_.columns, block_.columns));
    }
    for (std::size_t b = 0; b < largest.size(); ++b)
      set_factor(strip * blocks_across_ + static_cast<std::int64_t>(b),
                 std::bit_cast<float>(largest[b]));
  }

  void round_row(std::int64_t r, float* row) const {
    source_.copy_row(r, columns_, row);
    const std::int64_t first = r / block_.rows * blocks_across_;
    for (std::int64_t b = 0; b < blocks_across_; ++b)
      round_to_8_bits(row + b * block_.columns, k_.attributes().made, block_.columns,
                      factors_[first + b], bits_ + r * columns_ + b * block_.columns);
  }

  const KernelCall& k_;
  const MatrixSource<T> source_;
  const std::int64_t rows_, columns_, strips_, blocks_across_;
  const ScaleBlock block_;
  std::uint8_t* const bits_;
  float* const scales_;
  std::vector<float> factors_;  // by block: strip after strip
};

}  // namespace

namespace {

template <typename T>
float largest_of_input(const KernelCall& k) {
  const T* x = k.in<T>(0);
  std::uint32_t largest = 0;
  std::mutex mutex;
  parallel_for(k.pool, k.in_shape(0).elements(), elements_per_piece,
               [&](std::int64_t begin, std::int64_t end) {
                 const std::uint32_t own = largest_bits(x + begin, end - begin);
                 const std::lock_guard lock(mutex);
                 largest = std::max(largest, own);
               });
  return std::bit_cast<float>(largest);
}

}  // namespace

template <typename T>
void amax(const KernelCall& k) {
  *k.out<float>(0) = largest_of_input<T>(k);
  if (k.attributes().hadamard_key != 0) *k.out<float>(1) = largest_transformed<T>(k);
}

void update_largest(const KernelCall& k) {
  if (!std::isfinite(*k.in<double>(0)) || !std::isfinite(*k.in<double>(1))) return;
  auto* largest = k.out<float>(0);
  auto* history = k.out<float>(1);
  const std::int64_t steps = k.out_shape(1)[1];
  for (std::int64_t i = 0; i < k.out_shape(0)[0]; ++i, largest += 2, history += steps) {
    std::copy(history + 1, history + steps, history);
    history[steps - 1] = std::isfinite(largest[1]) ? largest[1] : 0;
    largest[0] = *std::max_element(history, history + steps);
    largest[1] = 0;
  }
}

template <typename T>
void quantize(const KernelCall& k) {
  if (k.attributes().scales_of_before) {
    float& seen = k.out<float>(k.call.outputs.size() - 1)[1];
    seen = std::max(seen, largest_of_input<T>(k));
  }
  if (k.attributes().made == Dtype::e2m1) return quantize_to_4_bits<T>(k);
  Rounding<T>(k, as_it_lies<T>(k), 0).run();
  if (k.attributes().with_transposed) Rounding<T>(k, transposed_source<T>(k), 2).run();
}

namespace {

template <typename Element>
void transpose_elements(const KernelCall& k) {
  const auto [count, rows, columns] = matrices_of(k.attributes(), k.in_shape(0));
  for (std::int64_t matrix = 0; matrix < count; ++matrix) {
    const auto* x = k.in<Element>(0) + matrix * rows * columns;
    auto* y = k.out<Element>(0) + matrix * rows * columns;
    parallel_for(k.pool, columns, rows_per_piece(rows),
                 [x, y, rows = rows, columns = columns](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t c = begin; c < end; ++c)
                     for (std::int64_t r = 0; r < rows; ++r) y[c * rows + r] = x[r * columns + c];
                 });
  }
}

}  // namespace

void transpose(const KernelCall& k) {
  switch (bytes_of(k.call.inputs[0].dtype)) {
    case 1:
      return transpose_elements<std::uint8_t>(k);
    case 2:
      return transpose_elements<std::uint16_t>(k);
    case 4:
      return transpose_elements<std::uint32_t>(k);
    default:
      return transpose_elements<std::uint64_t>(k);
  }
}

// Widens whole blocks at a time, so that each thread reads and writes its own.
void widen_weights(const KernelCall& k) {
  const Dtype from = k.call.inputs[0].dtype, to = k.call.outputs[0].dtype;
  const std::int64_t block = dtype_block(from).elements;
  const std::int64_t grain = std::max(block, elements_per_piece / block * block);
  parallel_for(k.pool, k.in_shape(0).elements(), grain, [&](std::int64_t begin, std::int64_t end) {
    const std::byte* blocks = k.in<std::byte>(0) + bytes_of(begin, from);
    std::vector<float> wide(end - begin);
    widen(blocks, from, end - begin, wide.data());
    narrow(wide.data(), to, end - begin, k.out<std::byte>(0) + bytes_of(begin, to));
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(amax),
    MESHWRIGHT_CPU_ROW(quantize),
    {Op::transpose, transpose, transpose, transpose},
    {Op::widen_weights, widen_weights, widen_weights, widen_weights},
    {Op::update_largest, update_largest, update_largest, update_largest},
};

std::span<const Row> quantized_rows() { return rows; }

}  // namespace meshwright::exec::cpu
