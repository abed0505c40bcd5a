// Rotary position embedding: in every query and key head, rotates the pairs (p, q) of the first
// rotary_dim coordinates by angles position * frequency, where models/program/graph/rotary.h gives
// each pair's frequency. With a temperature, multiplies the pairs by a factor of the position
// instead. Also has four operations in which an eager framework rotates.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "exec/backends/cuda/rows/rows.cuh"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/rotary.h"

namespace meshwright::exec::cuda {

namespace {

// The ways to change pairs: (p, q) becomes (a p - b q, b p + a q). All other elements are
// multiplied by `rest`, which is 0 or 1.
enum class Turn { by_angle, back, quarter, quarter_back, cosine, sine };
struct Factors {
  float a, b;
};

// The angle by which each pair of coordinates turns from one position to the next, in radians.
constexpr int most_pairs = 256;
struct Frequencies {
  double of_pair[most_pairs];
};

Frequencies frequencies_of(const Attributes& a) {
  if (a.rotary_dim > 2 * most_pairs)
    throw NotSupportedYet("CUDA kernels turn at most 512 coordinates of a head");
  Frequencies frequencies = {};
  const RotaryScaling scaling(a);
  for (int pair = 0; pair < a.rotary_dim / 2; ++pair)
    frequencies.of_pair[pair] = scaling.of_pair(pair);
  return frequencies;
}

// Returns the cosine and sine of an angle. Angles are large at late positions, so whole quarters of
// a turn are taken off in fp64, because fp32 would lose the fraction. The rest is at most pi/4, for
// which the polynomials of Cephes' sinf and cosf have small errors.
__device__ inline Factors cosine_and_sine(double angle) {
  constexpr double quarter = 1.5707963267948966;
  const double quarters = rint(angle * (1 / quarter));
  const auto x = static_cast<float>(fma(-quarters, quarter, angle));
  const float xx = x * x;
  const float s =
      x + x * xx * (-1.6666654611e-1f + xx * (8.3321608736e-3f - xx * 1.9515295891e-4f));
  const float c = 1.0f - 0.5f * xx +
                  xx * xx * (4.166664568e-2f + xx * (-1.388731625e-3f + xx * 2.443315712e-5f));
  const int place = static_cast<int>(static_cast<long long>(quarters) & 3);
  const float sine = place % 2 == 0 ? s : c, cosine = place % 2 == 0 ? c : s;
  return {place == 1 || place == 2 ? -cosine : cosine, place >= 2 ? -sine : sine};
}

__device__ inline Factors factors_of(Turn turn, double angle) {
  if (turn == Turn::quarter) return {0.0f, 1.0f};
  if (turn == Turn::quarter_back) return {0.0f, -1.0f};
  const auto [c, s] = cosine_and_sine(angle);
  if (turn == Turn::cosine) return {c, 0.0f};
  if (turn == Turn::sine) return {s, 0.0f};
  return {c, turn == Turn::back ? -s : s};
}

// Rotates rows unit by unit. A unit is a few neighbouring columns and, in heads that turn, also
// their partners in the pairs, so that one thread reads both before it writes either.
template <typename T>
struct Rotation {
  const T* x;
  T* y;  // may be x
  long long rows, width;
  int head_dim, rotary_dim;
  int heads_that_turn, other_heads;  // other_heads: 0 if they stay as they are
  bool per_head, interleaved;        // per_head: of three heads the first two turn
  bool writes_rest;  // whether columns after rotary_dim of turning heads are written
  Turn turn;
  float rest;
  TokenRows tokens;
  double temperature;  // 0: pairs turn
  int temperature_floor, position_offset;
  const int* documents;  // null: each sequence is one document
  long long apart;       // distance, in rows, between rows of one position

  __device__ __host__ int turning_units(int n) const {
    return (interleaved && n > 1 ? rotary_dim : rotary_dim / 2) / n;
  }
  __device__ __host__ int units_of_turning_head(int n) const {
    return turning_units(n) + (writes_rest ? (head_dim - rotary_dim) / n : 0);
  }
  __device__ __host__ int units(int n) const {
    return heads_that_turn * units_of_turning_head(n) + other_heads * (head_dim / n);
  }

  // Returns the factor for a position, as temperature_at() in models/program/graph/rotary.h does.
  __device__ float grown_at(double position) const {
    const double far = floor((position + 1 - position_offset) / temperature_floor);
    return static_cast<float>(1 + temperature * log1p(far));
  }

  __device__ long long position(long long row) const {
    return tokens.position(row) - (documents == nullptr ? 0 : documents[row]);
  }

  // The number of rows of one position that a thread has in flight at once.
  static constexpr int at_once = 4;
  __device__ long long row_of(long long first, int i) const { return first + i * apart; }
  // Reads n columns, from `column` on, of at_once rows of one position, the first of which is
  // `first`. Instead of rows past the last one, it reads row `first` again, because only loads
  // without a condition are issued together.
  template <int n>
  __device__ void read(long long first, int column, Chunk<T, n> (&to)[at_once]) const {
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const long long row = row_of(first, i) < rows ? row_of(first, i) : first;
      to[i] = chunk_at<n>(x + row * width + column);
    }
  }
  template <int n>
  __device__ static void widen_all(const Chunk<T, n>& from, float (&to)[n]) {
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] = widened(from.element[j]);
  }
  // Calls f(i, destination) for each of at_once rows of one position that exists. `destination` is
  // the start of the i-th of these rows in y.
  template <typename F>
  __device__ void for_rows(long long first, F f) const {
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (row_of(first, i) < rows) f(i, y + row_of(first, i) * width);
  }

  template <int n>
  __device__ void times_rest(int column) const {
    for (long long row = blockIdx.x; row < rows; row = row_of(row, at_once)) {
      Chunk<T, n> chunks[at_once];
      read(row, column, chunks);
      for_rows(row, [&](int i, T* to) {
        float part[n];
        widen_all(chunks[i], part);
#pragma unroll
        for (int j = 0; j < n; ++j) part[j] *= rest;
        store<n>(to + column, part);
      });
    }
  }

  // Rotates n columns, in which the two coordinates of a pair are neighbours (interleaved), in all
  // rows of a position.
  template <int n>
  __device__ void turn_neighbours(int column, const Factors (&of)[n]) const {
    for (long long row = blockIdx.x; row < rows; row = row_of(row, at_once)) {
      Chunk<T, n> chunks[at_once];
      read(row, column, chunks);
      for_rows(row, [&](int i, T* to) {
        float part[n], turned[n];
        widen_all(chunks[i], part);
#pragma unroll
        for (int j = 0; j + 1 < n; j += 2) {
          turned[j] = of[j / 2].a * part[j] - of[j / 2].b * part[j + 1];
          turned[j + 1] = of[j / 2].b * part[j] + of[j / 2].a * part[j + 1];
        }
        store<n>(to + column, turned);
      });
    }
  }

  // Rotates n pairs, whose first coordinates begin at column p and second ones at column q, in all
  // rows of a position.
  template <int n>
  __device__ void turn_pairs(int p, int q, const Factors (&of)[n]) const {
    for (long long row = blockIdx.x; row < rows; row = row_of(row, at_once)) {
      Chunk<T, n> of_p[at_once], of_q[at_once];
      read(row, p, of_p);
      read(row, q, of_q);
      for_rows(row, [&](int i, T* to) {
        float one[n], other[n];
        widen_all(of_p[i], one);
        widen_all(of_q[i], other);
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const float turned = of[j].a * one[j] - of[j].b * other[j];
          other[j] = of[j].b * one[j] + of[j].a * other[j];
          one[j] = turned;
        }
        store<n>(to + p, one);
        store<n>(to + q, other);
      });
    }
  }

  template <int n>
  __device__ void work_on(int unit, const Factors* factors) const {
    const int of_head = units_of_turning_head(n), turning = heads_that_turn * of_head;
    if (unit >= turning) {
      const int of_other = head_dim / n, other = (unit - turning) / of_other;
      const int head = per_head ? other * 3 + 2 : heads_that_turn + other;
      return times_rest<n>(head * head_dim + (unit - turning) % of_other * n);
    }
    const int own = unit / of_head, place = unit % of_head;
    const int begin = (per_head ? own / 2 * 3 + own % 2 : own) * head_dim;
    if (place >= turning_units(n))
      return times_rest<n>(begin + rotary_dim + (place - turning_units(n)) * n);
    const bool neighbours = interleaved && n > 1;
    const int first_pair = neighbours ? place * n / 2 : place * n;
    Factors of[n] = {};
#pragma unroll
    for (int j = 0; j < n; ++j)
      if (!neighbours || j < n / 2) of[j] = factors[first_pair + j];
    if (neighbours) return turn_neighbours<n>(begin + place * n, of);
    const int p = interleaved ? 2 * first_pair : first_pair;
    turn_pairs<n>(begin + p, begin + (interleaved ? p + 1 : p + rotary_dim / 2), of);
  }
};

constexpr int most_threads = 256;

// Rotates the rows of one position, which are a sequence apart, in one block, so that the angles
// are computed only once. In packed sequences a block has one row.
template <int vector, typename T>
__global__ void __launch_bounds__(most_threads)
    rotate_kernel(Rotation<T> k, Frequencies frequencies) {
  auto* factors = reinterpret_cast<Factors*>(shared_memory());
  const auto position = static_cast<double>(k.position(blockIdx.x));
  for (int pair = threadIdx.x; pair < k.rotary_dim / 2; pair += blockDim.x)
    factors[pair] = k.temperature != 0 ? Factors{k.grown_at(position), 0.0f}
                                       : factors_of(k.turn, position * frequencies.of_pair[pair]);
  __syncthreads();
  const int units = k.units(vector);
  for (int unit = threadIdx.x; unit < units; unit += blockDim.x)
    k.template work_on<vector>(unit, factors);
}

template <Turn turn>
void rotate(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  MESHWRIGHT_CHECK(a.head_dim > 0 && width % a.head_dim == 0 && width < 0x7fffffff &&
                       a.rotary_dim <= a.head_dim && a.rotary_dim % 2 == 0,
                   "rows are heads, of which pairs of coordinates turn");
  // A vector may contain neither the end of a head, nor that of the rotated part, nor, unless pairs
  // are interleaved, that of the rotated part's first half.
  std::int64_t unit = std::gcd(std::int64_t{a.head_dim}, std::int64_t{a.rotary_dim});
  if (!a.rotary_interleaved) unit = std::gcd(unit, std::int64_t{a.rotary_dim / 2});
  const int all_heads = static_cast<int>(width / a.head_dim);
  const int* documents = k.documents();
  const std::int64_t apart = documents == nullptr ? a.sequence_length : rows;
  with_vectors(k.call.inputs[0].dtype, unit, [&]<typename T, int vector>() {
    const float rest =
        turn == Turn::by_angle || turn == Turn::back || turn == Turn::cosine ? 1.0f : 0.0f;
    const bool writes_rest = rest != 1.0f || k.in<T>(0) != k.out<T>(0);
    const bool per_head = a.packing == Packing::per_head;
    const int turning = a.packing == Packing::concatenated
                            ? std::min(a.heads + a.kv_heads, all_heads)
                        : per_head ? all_heads / 3 * 2
                                   : all_heads;
    const Rotation<T> rotation{k.in<T>(0),
                               k.out<T>(0),
                               rows,
                               width,
                               a.head_dim,
                               a.rotary_dim,
                               turning,
                               writes_rest ? all_heads - turning : 0,
                               per_head,
                               a.rotary_interleaved,
                               writes_rest,
                               turn,
                               rest,
                               TokenRows(k),
                               a.temperature,
                               a.temperature_floor,
                               a.position_offset,
                               documents,
                               apart};
    const int threads = std::clamp((rotation.units(vector) + 31) / 32 * 32, 32, most_threads);
    launch(rotate_kernel<vector, T>, {blocks_for(std::min(rows, apart), 1)},
           {static_cast<unsigned int>(threads)},
           a.rotary_dim / 2 * static_cast<std::int64_t>(sizeof(Factors)), k.stream, rotation,
           frequencies_of(a));
  });
}

constexpr Row rows[] = {
    {Op::rope, rotate<Turn::by_angle>},       {Op::rope_grad, rotate<Turn::back>},
    {Op::rotate_half, rotate<Turn::quarter>}, {Op::rotate_half_grad, rotate<Turn::quarter_back>},
    {Op::times_cosine, rotate<Turn::cosine>}, {Op::times_sine, rotate<Turn::sine>},
};

}  // namespace

std::span<const Row> rope_rows() { return rows; }

}  // namespace meshwright::exec::cuda
