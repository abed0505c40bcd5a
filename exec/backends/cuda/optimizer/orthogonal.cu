#include "exec/backends/cuda/optimizer/orthogonal.h"

#include <algorithm>
#include <utility>

#include "exec/backends/cuda/device/launch.h"
#include "models/core/error.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads = 256;
constexpr int most_segments = 4;

// Finds where the elements of a whole matrix are in the parts of its ranks.
struct Places {
  std::int64_t rows, columns;
  int cut_dim, parts, segments;
  std::int64_t segment[most_segments];

  // Finds the part that holds element (row, column), and the element's index in the part.
  __device__ void find(std::int64_t row, std::int64_t column, int& part, std::int64_t& at) const {
    part = 0;
    at = row * columns + column;
    if (cut_dim < 0) return;
    const std::int64_t along = cut_dim == 0 ? row : column;
    std::int64_t begin = 0;
    int s = 0;
    while (s + 1 < segments && along >= begin + segment[s]) begin += segment[s++];
    const std::int64_t own = segment[s] / parts;
    part = static_cast<int>((along - begin) / own);
    const std::int64_t local = begin / parts + (along - begin) % own;
    at = cut_dim == 0 ? local * columns + column : row * (columns / parts) + local;
  }
};

Places places_of(const WholeMatrix& matrix) {
  MESHWRIGHT_CHECK(matrix.segments.size() <= most_segments, "a matrix has few segments");
  Places places{matrix.rows,
                matrix.columns,
                matrix.cut_dim,
                matrix.parts,
                static_cast<int>(matrix.segments.size()),
                {}};
  std::copy(matrix.segments.begin(), matrix.segments.end(), places.segment);
  return places;
}

__device__ std::int64_t own_index() {
  return static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
}

// Puts the whole matrix x together from its parts. With `turns`, x is the transposed matrix.
__global__ void gather_kernel(Places places, const float* parts, std::int64_t distance, bool turns,
                              float* x) {
  const std::int64_t i = own_index();
  if (i >= places.rows * places.columns) return;
  const std::int64_t row = i / places.columns, column = i % places.columns;
  int part;
  std::int64_t at;
  places.find(row, column, part, at);
  x[turns ? column * places.rows + row : i] = parts[part * distance + at];
}

// Copies this rank's part of the whole matrix x to `own`. With `turns`, x is the transposed matrix.
__global__ void take_kernel(Places places, int own_part, const float* x, bool turns, float* own) {
  const std::int64_t i = own_index();
  if (i >= places.rows * places.columns) return;
  const std::int64_t row = i / places.columns, column = i % places.columns;
  int part;
  std::int64_t at;
  places.find(row, column, part, at);
  if (part == own_part) own[at] = x[turns ? column * places.rows + row : i];
}

// Writes norm_parts partial sums of the squares of x. Each block makes one of them, in a fixed
// order of additions.
__global__ void squares_kernel(const float* x, std::int64_t count, double* partial) {
  const std::int64_t each = (count + norm_parts - 1) / norm_parts;
  const std::int64_t begin = blockIdx.x * each, end = min(begin + each, count);
  __shared__ double sums[threads];
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += threads)
    sum += static_cast<double>(x[i]) * x[i];
  sums[threadIdx.x] = sum;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

__global__ void normalize_kernel(float* x, std::int64_t count, const double* partial) {
  double squares = 0;
  for (int i = 0; i < norm_parts; ++i) squares += partial[i];
  const float scale = 1 / (static_cast<float>(sqrt(squares)) + muon_epsilon);
  const std::int64_t i = own_index();
  if (i < count) x[i] *= scale;
}

// Computes y = a x + b y.
__global__ void combine_kernel(float a, const float* x, float b, float* y, std::int64_t count) {
  const std::int64_t i = own_index();
  if (i < count) y[i] = a * x[i] + b * y[i];
}

void combine(float a, const float* x, float b, float* y, std::int64_t count, cudaStream_t stream) {
  launch(combine_kernel, {blocks_for(count, threads)}, {threads}, 0, stream, a, x, b, y, count);
}

int alignment_of(std::initializer_list<const void*> addresses) {
  int alignment = 16;
  for (const void* address : addresses)
    while (reinterpret_cast<std::uintptr_t>(address) % static_cast<unsigned>(alignment) != 0)
      alignment /= 2;
  return alignment;
}

void multiply(Products& products, ProductForm form, const float* a, const float* b, float* c,
              cudaStream_t stream) {
  form.alignment = alignment_of({a, b, c});
  products.run(form, {.a = a, .b = b, .c = c}, stream);
}

// Makes x[m,n], where m <= n, approximately orthogonal by Newton-Schulz steps. Returns the address
// of the result, which is x or next. next[m,n], a[m,m], b[m,m] and `partial` are scratch memory.
float* newton_schulz(Products& products, std::int64_t m, std::int64_t n, float* x, float* next,
                     float* a, float* b, double* partial, cudaStream_t stream) {
  launch(squares_kernel, {norm_parts}, {threads}, 0, stream, x, m * n, partial);
  launch(normalize_kernel, {blocks_for(m * n, threads)}, {threads}, 0, stream, x, m * n, partial);
  for (int step = 0; step < muon_steps; ++step) {
    multiply(products, {.m = m, .n = m, .k = n, .transpose_b = true}, x, x, a, stream);
    multiply(products, {.m = m, .n = m, .k = m}, a, a, b, stream);
    combine(muon_b, a, muon_c, b, m * m, stream);
    multiply(products, {.m = m, .n = n, .k = m}, b, x, next, stream);
    combine(muon_a, x, 1, next, m * n, stream);
    std::swap(x, next);
  }
  return x;
}

}  // namespace

void orthogonalize(Products& products, const WholeMatrix& matrix, const float* parts,
                   std::int64_t distance, float* own, float* scratch, double* partial,
                   cudaStream_t stream) {
  const std::int64_t size = matrix.rows * matrix.columns;
  const std::int64_t of_part = matrix.cut_dim < 0 ? size : size / matrix.parts;
  const bool turns = matrix.rows > matrix.columns;
  const std::int64_t m = std::min(matrix.rows, matrix.columns), n = size / m;
  float *x = scratch, *other = x + size, *a = other + size, *b = a + m * m;
  const Places places = places_of(matrix);
  const unsigned int blocks = blocks_for(size, threads);
  for (std::int64_t i = 0; i < matrix.count; ++i) {
    launch(gather_kernel, {blocks}, {threads}, 0, stream, places, parts + i * of_part, distance,
           turns, x);
    const float* made = newton_schulz(products, m, n, x, other, a, b, partial, stream);
    launch(take_kernel, {blocks}, {threads}, 0, stream, places,
           matrix.cut_dim < 0 ? 0 : matrix.part, made, turns, own + i * of_part);
  }
}

}  // namespace meshwright::exec::cuda
