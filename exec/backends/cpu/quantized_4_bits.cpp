// Rounding of tensors to 4 bits (NVFP4).
#include <mutex>
#include <vector>

#include "exec/backends/cpu/quantized.h"
#include "exec/core/four_bits.h"
#include "exec/core/philox.h"

namespace meshwright::exec::cpu {

namespace {

constexpr std::int64_t transform_length = 16;

void transform_row(float* row, std::int64_t count, std::uint32_t signs) {
  for (std::int64_t i = 0; i < count; i += transform_length) hadamard_16(row + i, signs);
}

// The random bits by which an element is rounded. They are a function of the seed, the module, the
// sequence, the place in the sequence and the column, so that a run draws the same bits on any
// number of ranks.
class RoundingBits {
 public:
  RoundingBits(const KernelCall& k, bool of_transposed)
      : key_{static_cast<std::uint32_t>(k.attributes().rounding_key),
             static_cast<std::uint32_t>(k.attributes().rounding_key >> 32U)},
        length_(k.attributes().sequence_length),
        first_sequence_(k.context.first_sequence),
        first_token_(k.context.context_rank * length_),
        of_transposed_(of_transposed) {
    // The transposed copy draws other bits, so that both copies of an element are rounded
    // independently.
    if (of_transposed) key_[1] = ~key_[1];
  }

  void fill(std::int64_t row, std::int64_t count, std::uint32_t* bits) const {
    if (of_transposed_)
      fill_column(row, count, bits);
    else
      fill_row(row, count, bits);
  }

 private:
  PhiloxCounter draw(std::int64_t token_row, std::int64_t in_sequence, std::int64_t column) const {
    const std::int64_t sequence = first_sequence_ + token_row / length_;
    return philox(
        {static_cast<std::uint32_t>(column), static_cast<std::uint32_t>(in_sequence),
         static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32)},
        key_);
  }

  // Writes the random bits of `count` columns of a row. One draw has the bits of four columns.
  void fill_row(std::int64_t row, std::int64_t count, std::uint32_t* bits) const {
    for (std::int64_t c = 0; c < count; c += 4)
      std::copy_n(draw(row, first_token_ + row % length_, c / 4).begin(),
                  std::min<std::int64_t>(4, count - c), bits + c);
  }

  // Writes the random bits of `count` rows of a column. One draw gives the bits of four tokens of a
  // sequence that follow each other.
  void fill_column(std::int64_t column, std::int64_t count, std::uint32_t* bits) const {
    PhiloxCounter drawn{};
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t token = first_token_ + row % length_;
      if (row == 0 || row % length_ == 0 || token % 4 == 0) drawn = draw(row, token / 4, column);
      bits[row] = drawn[token % 4];
    }
  }

  PhiloxKey key_;
  std::int64_t length_, first_sequence_, first_token_;
  bool of_transposed_;
};

// Rounds a matrix to 4 bits. Output `first` gets the elements and the next output their scales.
template <typename T>
class RoundingTo4Bits {
 public:
  RoundingTo4Bits(const KernelCall& k, const MatrixSource<T>& source, std::size_t first,
                  float largest)
      : k_(k),
        source_(source),
        rows_(rows_of_scales(k.out_shape(first))),
        columns_(k.out_shape(first)[-1]),
        blocks_across_(k.out_shape(first + 1)[1]),
        block_(scale_block(k.out_shape(first), k.out_shape(first + 1))),
        factor_(tensor_factor(largest)),
        signs_(first > 0 && k.attributes().hadamard_key != 0
                   ? hadamard_signs(k.attributes().hadamard_key)
                   : 0),
        transforms_(first > 0 && k.attributes().hadamard_key != 0),
        random_(k, first > 0),
        numbers_(k.out<std::uint8_t>(first)),
        scales_(k.out<std::uint8_t>(first + 1)) {}

  void run() const {
    parallel_for(k_.pool, rows_ / block_.rows, rows_per_piece(block_.rows * columns_),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<float> strip(block_.rows * columns_);
                   std::vector<std::uint32_t> bits(columns_);
                   for (std::int64_t s = begin; s < end; ++s) round_strip(s, strip, bits);
                 });
  }

 private:
  void round_strip(std::int64_t strip, std::vector<float>& numbers,
                   std::vector<std::uint32_t>& bits) const {
    std::vector<std::uint32_t> largest(blocks_across_, 0);
    for (std::int64_t r = 0; r < block_.rows; ++r) {
      float* row = numbers.data() + r * columns_;
      source_.copy_row(strip * block_.rows + r, columns_, row);
      if (transforms_) transform_row(row, columns_, signs_);
      for (std::int64_t b = 0; b < blocks_across_; ++b) {
        std::uint32_t& of_block = largest[b];
        of_block = std::max(of_block, largest_bits(row + b * block_.columns, block_.columns));
      }
    }
    std::uint8_t* scales = scales_ + strip * blocks_across_;
    for (std::int64_t b = 0; b < blocks_across_; ++b)
      scales[b] = block_scale(std::bit_cast<float>(largest[b]), factor_);
    for (std::int64_t r = 0; r < block_.rows; ++r)
      round_row(strip * block_.rows + r, numbers.data() + r * columns_, scales, bits);
  }

  void round_row(std::int64_t r, const float* row, const std::uint8_t* scales,
                 std::vector<std::uint32_t>& bits) const {
    const bool at_random = k_.attributes().rounding_key != 0;
    if (at_random) random_.fill(r, columns_, bits.data());
    for (std::int64_t b = 0; b < blocks_across_; ++b) {
      const std::int64_t column = b * block_.columns;
      const float factor = block_factor(scales[b], factor_);
      std::uint8_t* to = numbers_ + (r * columns_ + column) / 2;
      if (at_random)
        round_to_4_bits(row + column, block_.columns, factor, bits.data() + column, to);
      else
        round_to_4_bits(row + column, block_.columns, factor, to);
    }
  }

  const KernelCall& k_;
  const MatrixSource<T> source_;
  const std::int64_t rows_, columns_, blocks_across_;
  const ScaleBlock block_;
  const float factor_;
  const std::uint32_t signs_;
  const bool transforms_;
  const RoundingBits random_;
  std::uint8_t* const numbers_;
  std::uint8_t* const scales_;
};

}  // namespace

template <typename T>
void quantize_to_4_bits(const KernelCall& k) {
  RoundingTo4Bits<T>(k, as_it_lies<T>(k), 0, *k.in<float>(1)).run();
  if (!k.attributes().with_transposed) return;
  const std::size_t largest = k.attributes().hadamard_key != 0 ? 2 : 1;
  RoundingTo4Bits<T>(k, transposed_source<T>(k), 2, *k.in<float>(largest)).run();
}

template <typename T>
float largest_transformed(const KernelCall& k) {
  const Matrices each = matrices_of(k.attributes(), k.in_shape(0));
  const MatrixSource<T> source = transposed_source<T>(k);
  const std::uint32_t signs = hadamard_signs(k.attributes().hadamard_key);
  std::uint32_t largest = 0;
  std::mutex mutex;
  parallel_for(k.pool, each.count * each.columns, rows_per_piece(each.rows),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<float> row(each.rows);
                 std::uint32_t own = 0;
                 for (std::int64_t r = begin; r < end; ++r) {
                   source.copy_row(r, each.rows, row.data());
                   transform_row(row.data(), each.rows, signs);
                   own = std::max(own, largest_bits(row.data(), each.rows));
                 }
                 const std::lock_guard lock(mutex);
                 largest = std::max(largest, own);
               });
  return std::bit_cast<float>(largest);
}

template void quantize_to_4_bits<float>(const KernelCall&);
template void quantize_to_4_bits<double>(const KernelCall&);
template float largest_transformed<float>(const KernelCall&);
template float largest_transformed<double>(const KernelCall&);

}  // namespace meshwright::exec::cpu
