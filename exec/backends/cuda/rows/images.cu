// Makes rows of a matrix of images: their patches, and the class token before the patches of each
// image.
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/rows/wide_rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

struct Patches {
  int across, size, channels;  // across: patches across an image; size: pixels across a patch
  long long per_image() const { return static_cast<long long>(across) * across; }
  __host__ __device__ int width() const { return channels * size * size; }
};

// Writes each patch of the images as a row of y, with pixels from 0 to 255 as numbers from -1 to 1.
// Pixels that are neighbours in a row of a patch are also neighbours in the image.
template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    patches_kernel(const int* __restrict__ pixels, T* __restrict__ y, long long rows,
                   Patches patches, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const int per_image = patches.across * patches.across, size = patches.size;
  const int side = patches.across * size, patch = static_cast<int>(row % per_image);
  const int width = patches.width();
  const int* image = pixels + row / per_image * per_image * width;
  const int* corner = image + static_cast<long long>(patch / patches.across) * size * side +
                      patch % patches.across * size;
  for_columns<row_threads, 4>(width, in_groups, [&](int column, auto count) {
    constexpr int n = decltype(count)::value;
    const int c = column / (size * size), in_patch = column % (size * size);
    const int* from =
        corner + static_cast<long long>(c) * side * side + in_patch / size * side + in_patch % size;
    const Chunk<int, n> chunk = *reinterpret_cast<const Chunk<int, n>*>(from);
    float made[n];
#pragma unroll
    for (int j = 0; j < n; ++j) made[j] = static_cast<float>(chunk.element[j]) / 127.5f - 1.0f;
    store<n>(y + row * width + column, made);
  });
}

void image_patches(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const Patches patches{patches_across(a), a.patch_size, a.channels};
  const long long rows = k.out_shape(0)[0];
  with_type(k.call.outputs[0].dtype, [&]<typename T>(T) {
    const bool in_groups = patches.size % 4 == 0 &&
                           moves_groups<4>(k.in<int>(0), patches.per_image() * patches.width()) &&
                           moves_groups<4>(k.out<T>(0), patches.width());
    for_rows(rows, patches.width(), [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(patches_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<int>(0), k.out<T>(0), rows, patches, in_groups);
    });
  });
}

// With `prepends`, the first row of each sequence of y [sequences * length, width] becomes `first`
// and the others those of x. Otherwise y receives the rows of x without the first of each sequence.
template <int row_threads, bool prepends, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    move_rows_kernel(const T* __restrict__ x, const T* __restrict__ first, T* __restrict__ y,
                     long long rows, int length, int width, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const long long sequence = row / length, place = row % length;
  if (!prepends && place == 0) return;
  const long long other = row - sequence - 1;  // index without the first rows of sequences
  const T* from = prepends ? (place == 0 ? first : x + other * width) : x + row * width;
  T* to = y + (prepends ? row : other) * width;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    *reinterpret_cast<Chunk<T, n>*>(to + c) = *reinterpret_cast<const Chunk<T, n>*>(from + c);
  });
}

template <bool prepends, typename T>
void move_rows(const KernelCall& k, const T* first) {
  const int width = width_of(k.in_shape(0)[1]), length = k.attributes().sequence_length;
  const long long rows = static_cast<long long>(k.attributes().micro_batch) * length;
  constexpr int n = vector_of<T>;
  const bool in_groups = moves_groups<n>(k.in<T>(0), width) &&
                         moves_groups<n>(k.out<T>(0), width) &&
                         (first == nullptr || moves_groups<n>(first, width));
  for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
    launch(move_rows_kernel<decltype(row_threads)::value, prepends, T>, blocks, threads, 0,
           k.stream, k.in<T>(0), first, k.out<T>(0), rows, length, width, in_groups);
  });
}

void prepend_row(const KernelCall& k) {
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) { move_rows<true>(k, k.in<T>(1)); });
}

// Adds the gradients of the first rows of all sequences to `sums`. Each thread has one column and
// goes through all sequences, because a micro-batch has few.
template <typename T, typename To>
__global__ void __launch_bounds__(256)
    first_rows_kernel(const T* __restrict__ dy, To* __restrict__ sums, int sequences, int length,
                      int width) {
  const int column = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (column >= width) return;
  float sum = 0;
  for (int b = 0; b < sequences; ++b)
    sum += widened(dy[static_cast<long long>(b) * length * width + column]);
  narrow(widened(sums[column]) + sum, sums[column]);
}

void prepend_row_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const int width = width_of(k.in_shape(0)[1]);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    move_rows<false>(k, static_cast<const T*>(nullptr));
    with_type(k.call.outputs[1].dtype, [&]<typename To>(To) {
      launch(first_rows_kernel<T, To>, {blocks_for(width, 256)}, {256}, 0, k.stream, k.in<T>(0),
             k.out<To>(1), a.micro_batch, a.sequence_length, width);
    });
  });
}

constexpr Row rows[] = {
    {Op::image_patches, image_patches},
    {Op::prepend_row, prepend_row},
    {Op::prepend_row_grad, prepend_row_grad},
};

}  // namespace

std::span<const Row> images_rows() { return rows; }

}  // namespace meshwright::exec::cuda
