// Images as rows of a matrix: their patches, and the class token before the patches of each image.
#include <algorithm>

#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

template <typename T>
void image_patches(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t size = a.patch_size, across = patches_across(a), side = across * size;
  const std::int64_t width = k.out_shape(0)[1], per_image = across * across;
  const std::int32_t* pixels = k.in<std::int32_t>(0);
  T* y = k.out<T>(0);
  const auto row = [=](std::int64_t r) {
    const std::int64_t image = r / per_image, patch = r % per_image;
    const std::int64_t corner = patch / across * size * side + patch % across * size;
    const std::int32_t* from = pixels + image * per_image * width + corner;
    T* to = y + r * width;
    for (std::int64_t c = 0; c < a.channels; ++c, from += side * side)
      for (std::int64_t i = 0; i < size; ++i)
        for (std::int64_t j = 0; j < size; ++j)
          *to++ = static_cast<T>(from[i * side + j]) / T(127.5) - T(1);
  };
  for_each_row(k, k.out_shape(0)[0], width, [=](std::int64_t r) { row(r); });
}

template <typename T>
void prepend_row(const KernelCall& k) {
  const std::int64_t h = k.in_shape(0)[1], s = k.attributes().sequence_length;
  const T* x = k.in<T>(0);
  const T* first = k.in<T>(1);
  T* y = k.out<T>(0);
  parallel_for(k.pool, k.attributes().micro_batch, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::copy_n(first, h, y + b * s * h);
      std::copy_n(x + b * (s - 1) * h, (s - 1) * h, y + (b * s + 1) * h);
    }
  });
}

template <typename T>
void prepend_row_grad(const KernelCall& k) {
  const std::int64_t h = k.in_shape(0)[1], s = k.attributes().sequence_length;
  const std::int64_t batch = k.attributes().micro_batch;
  const T* dy = k.in<T>(0);
  T* dx = k.out<T>(0);
  parallel_for(k.pool, batch, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      std::copy_n(dy + (b * s + 1) * h, (s - 1) * h, dx + b * (s - 1) * h);
  });
  add_column_sums<T>(k, batch, h, 1,
                     [=](std::int64_t b, std::int64_t c) { return dy[b * s * h + c]; });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(image_patches),
    MESHWRIGHT_MOVING_ROW(prepend_row),
    MESHWRIGHT_CPU_ROW(prepend_row_grad),
};

std::span<const Row> images_rows() { return rows; }

}  // namespace meshwright::exec::cpu
