#include "sim/cost/gemm.h"
#include "models/program/graph/op_table.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

// Output tiles that libraries choose from, with the share of the peak that each reaches in half
// precision when the device is full of them. A smaller tile loads more operands per multiplication.
// The thin ones are for matmuls with a short side such as the rank of LoRA (ampere_sgemm_128x32 of
// cuBLAS). Their share is an estimate.
struct Tile {
  std::int64_t m, n;
  double share;
};
constexpr Tile tiles[] = {
    {256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.97}, {128, 64, 0.85},
    {64, 128, 0.85}, {64, 64, 0.7},   {128, 32, 0.6},   {32, 128, 0.6},
};

// A matmul whose tiles do not fill the last wave may be split along k too, and its parts are
// summed.
// Least number of elements along k in each part of a split matmul.
constexpr std::int64_t shortest_split = 512;
// At most this many parts are tried, and in addition the number of parts that fills the device
// once, if it is larger.
constexpr std::int64_t most_splits = 8;
constexpr double split_share = 0.9;

// Alignment of leading dimensions in bytes that allows the fastest loads.
constexpr std::int64_t aligned_bytes = 16;

std::int64_t element_bits(Precision precision) {
  if (precision == Precision::nvfp4) return 4;
  if (precision == Precision::fp8) return 8;
  return precision == Precision::fp16 || precision == Precision::bf16 ? 16
         : precision == Precision::fp64                               ? 64
                                                                      : 32;
}

bool misaligned(const Kernel& product, Precision precision) {
  // The model assumes that alignment matters for tensor cores only, and that these precisions do
  // not use them.
  if (precision == Precision::fp32 || precision == Precision::fp64) return false;
  const std::int64_t multiple = aligned_bytes * 8 / element_bits(precision);
  return product.m % multiple != 0 || product.n % multiple != 0 || product.k % multiple != 0;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// Returns how many bits of operands per second a precision needs at its peak, relative to 16-bit
// operands at the rate `fastest`. Slow arithmetic hides the loads of small tiles.
double operand_demand(const Gpu& gpu, Precision precision, double fastest) {
  return gpu.peak(precision).value * static_cast<double>(element_bits(precision)) / (fastest * 16);
}

double share_of(const Tile& tile, double demand) { return 1 / (1 + (1 / tile.share - 1) * demand); }

// Returns the share of the peak that a matmul reaches with one kind of tile. `start` is the number
// of elements along k that a tile could have processed in the time in which it begins and ends.
// Only the first and the last tile of a multiprocessor cannot hide this time behind other tiles.
double efficiency_with(const Tile& tile, double tile_share, const Kernel& product,
                       std::int64_t processors, double start) {
  const std::int64_t rows = divided_up(product.m, tile.m), columns = divided_up(product.n, tile.n);
  const double inside =
      static_cast<double>(product.m) * static_cast<double>(product.n) /
      (static_cast<double>(rows * tile.m) * static_cast<double>(columns * tile.n));
  const std::int64_t blocks = rows * columns * product.batch;
  const auto share_with = [&](std::int64_t splits) {
    const std::int64_t waves = divided_up(blocks * splits, processors);
    const double taken_in =
        static_cast<double>(waves) * static_cast<double>(product.k) / static_cast<double>(splits);
    return (splits > 1 ? split_share : 1) * static_cast<double>(blocks * splits) /
           static_cast<double>(waves * processors) * taken_in / (taken_in + start);
  };
  const std::int64_t deepest = std::max<std::int64_t>(1, product.k / shortest_split);
  double best = share_with(std::clamp<std::int64_t>(processors / blocks, 1, deepest));
  for (std::int64_t splits = 1; splits <= std::min(most_splits, deepest); ++splits)
    best = std::max(best, share_with(splits));
  return tile_share * inside * best;
}

}  // namespace

double shape_efficiency(const Kernel& product, const Gpu& gpu, Precision precision) {
  // On a CPU the efficiency curve includes the effect of the shape.
  if (gpu.kind == DeviceKind::cpu || product.m == 0) return 1;
  // A tile takes the same time to begin and to end with any arithmetic, so fast arithmetic loses
  // more elements along k.
  const double fastest = std::max({gpu.peak(Precision::fp16).value, gpu.peak(Precision::bf16).value,
                                   gpu.peak(Precision::fp32).value});
  const double start = gpu.kernels.depth_start * gpu.peak(precision).value / fastest;
  const double demand = operand_demand(gpu, precision, fastest);
  double best = 0;
  for (const Tile& tile : tiles)
    best = std::max(best, efficiency_with(tile, share_of(tile, demand), product,
                                          std::max(1, gpu.sm_count), start));
  if (!misaligned(product, precision)) return best;
  return best * (product.kind == Kernel::Kind::batched_gemm ? gpu.kernels.misaligned_batched_share
                                                            : gpu.kernels.misaligned_share);
}

}  // namespace meshwright::sim
