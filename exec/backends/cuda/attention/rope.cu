// Rotary position embedding: in every query and key head the pairs (p, q) of the first rotary_dim
// coordinates are turned by angles position * base^(-2i / rotary_dim). And the four steps in which
// an eager framework does it.
#include <algorithm>
#include <numeric>

#include "exec/backends/cuda/rows/rows.cuh"
#include "exec/backends/cuda/tables.h"
#include "models/graph/rotary.h"

namespace meshwright::cuda {

namespace {

// Pairs become (a p - b q, b p + a q), all else is multiplied by `rest`.
enum class Turn { by_angle, back, quarter, quarter_back, cosine, sine };
struct Factors {
  float a, b;
};

// What RotaryScaling does, on the device.
__device__ inline double scaled(double frequency, const RotaryScaling& scaling) {
  if (scaling.original == 0) return frequency / scaling.factor;
  constexpr double full_turn = 6.283185307179586;
  const double turns = scaling.original * frequency / full_turn;
  if (turns < scaling.low) return frequency / scaling.factor;
  if (turns > scaling.high) return frequency;
  const double kept = (turns - scaling.low) / (scaling.high - scaling.low);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

// Angles are large where positions are: in double, as fp32 would lose their fraction.
__device__ inline Factors factors_of(Turn turn, double position, double base, int pair, int dim,
                                     const RotaryScaling& scaling) {
  if (turn == Turn::quarter) return {0.0f, 1.0f};
  if (turn == Turn::quarter_back) return {0.0f, -1.0f};
  const double angle = position * scaled(pow(base, -2.0 * pair / dim), scaling);
  const auto c = static_cast<float>(cos(angle)), s = static_cast<float>(sin(angle));
  if (turn == Turn::cosine) return {c, 0.0f};
  if (turn == Turn::sine) return {s, 0.0f};
  return {c, turn == Turn::back ? -s : s};
}

template <typename T>
struct Rotation {
  const T* x;
  T* y;  // may be x
  long long rows, width;
  int head_dim, rotary_dim, heads_that_turn;
  bool per_head, interleaved;  // per_head: of three heads the first two turn
  Turn turn;
  float rest;
  double base;
  RotaryScaling scaling;
  TokenRows tokens;

  __device__ bool turns(int head) const { return per_head ? head % 3 < 2 : head < heads_that_turn; }

  template <int n>
  __device__ void times_rest(const T* from, T* to) const {
    float part[n];
    load<n>(from, part);
#pragma unroll
    for (int j = 0; j < n; ++j) part[j] *= rest;
    store<n>(to, part);
  }

  // Coordinates [first, first + n) of a head that turns; those with which they are pairs belong
  // to them, so that one thread reads both before it writes either.
  template <int n>
  __device__ void turn_part(const T* from, T* to, int first, const Factors* factors) const {
    const int half = rotary_dim / 2;
    if (interleaved && n > 1) {
      float part[n], turned[n];
      load<n>(from + first, part);
#pragma unroll
      for (int j = 0; j + 1 < n; j += 2) {
        const Factors f = factors[(first + j) / 2];
        turned[j] = f.a * part[j] - f.b * part[j + 1];
        turned[j + 1] = f.b * part[j] + f.a * part[j + 1];
      }
      store<n>(to + first, turned);
      return;
    }
    if (first >= half) return;
    const int p = interleaved ? 2 * first : first, q = interleaved ? p + 1 : first + half;
    float one[n], other[n];
    load<n>(from + p, one);
    load<n>(from + q, other);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const Factors f = factors[first + j];
      const float turned = f.a * one[j] - f.b * other[j];
      other[j] = f.b * one[j] + f.a * other[j];
      one[j] = turned;
    }
    store<n>(to + p, one);
    store<n>(to + q, other);
  }
};

constexpr int threads = 256;

// A block takes the rows of one position, which are a sequence apart: it finds the angles once.
template <int vector, typename T>
__global__ void __launch_bounds__(threads) rotate_kernel(Rotation<T> k) {
  auto* factors = reinterpret_cast<Factors*>(shared_memory());
  const auto position = static_cast<double>(k.tokens.position(blockIdx.x));
  for (int pair = threadIdx.x; pair < k.rotary_dim / 2; pair += threads)
    factors[pair] = factors_of(k.turn, position, k.base, pair, k.rotary_dim, k.scaling);
  __syncthreads();
  for (long long row = blockIdx.x; row < k.rows; row += k.tokens.sequence_length)
#pragma unroll 2
    for (int column = threadIdx.x * vector; column < k.width; column += threads * vector) {
      const int head = column / k.head_dim, first = column % k.head_dim;
      const T* from = k.x + row * k.width;
      T* to = k.y + row * k.width;
      if (k.turns(head) && first < k.rotary_dim)
        k.template turn_part<vector>(from + head * k.head_dim, to + head * k.head_dim, first,
                                     factors);
      else
        k.template times_rest<vector>(from + column, to + column);
    }
}

template <Turn turn>
void rotate(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  MESHWRIGHT_CHECK(a.head_dim > 0 && width % a.head_dim == 0 && width < 0x7fffffff &&
                       a.rotary_dim <= a.head_dim && a.rotary_dim % 2 == 0,
                   "rows are heads, of which pairs of coordinates turn");
  // Without vectors where the halves of what turns begin in the middle of one.
  std::int64_t unit = std::gcd(std::int64_t{a.head_dim}, std::int64_t{a.rotary_dim});
  if (!a.rotary_interleaved) unit = std::gcd(unit, std::int64_t{a.rotary_dim / 2});
  const int all_heads = static_cast<int>(width / a.head_dim);
  with_vectors(k.call.inputs[0].dtype, unit, [&]<typename T, int vector>() {
    const Rotation<T> rotation{
        k.in<T>(0),
        k.out<T>(0),
        rows,
        width,
        a.head_dim,
        a.rotary_dim,
        a.packing == Packing::concatenated ? a.heads + a.kv_heads : all_heads,
        a.packing == Packing::per_head,
        a.rotary_interleaved,
        turn,
        turn == Turn::by_angle || turn == Turn::back || turn == Turn::cosine ? 1.0f : 0.0f,
        a.rotary_base,
        RotaryScaling(a),
        TokenRows(k)};
    launch(rotate_kernel<vector, T>,
           {blocks_for(std::min<std::int64_t>(rows, a.sequence_length), 1)}, {threads},
           a.rotary_dim / 2 * static_cast<std::int64_t>(sizeof(Factors)), k.stream, rotation);
  });
}

constexpr Row rows[] = {
    {Op::rope, rotate<Turn::by_angle>},       {Op::rope_grad, rotate<Turn::back>},
    {Op::rotate_half, rotate<Turn::quarter>}, {Op::rotate_half_grad, rotate<Turn::quarter_back>},
    {Op::times_cosine, rotate<Turn::cosine>}, {Op::times_sine, rotate<Turn::sine>},
};

}  // namespace

std::span<const Row> rope_rows() { return rows; }

}  // namespace meshwright::cuda
