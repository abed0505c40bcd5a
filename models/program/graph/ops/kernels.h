// Declares helpers that append the kernels of an operation, and their work, to a list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/program/graph/op_table.h"

namespace meshwright::program {

using KernelList = std::vector<Kernel>;

inline double bytes_of_all(std::span<const TensorType> types) {
  double sum = 0;
  for (const TensorType& type : types) sum += static_cast<double>(type.bytes());
  return sum;
}

inline double bytes(const TensorType& type) { return static_cast<double>(type.bytes()); }

inline void memory_kernel(KernelList& kernels, double traffic) {
  kernels.push_back({Kernel::Kind::memory, 0, 0, 0, 1, 0, traffic});
}

inline void joining_traffic(KernelList& kernels, double traffic) {
  memory_kernel(kernels, traffic);
  kernels.back().joins_neighbour = true;
}

// gemm() appends one matmul [m,k] * [k,n], which moves `traffic` bytes. batched_gemm() appends one
// kernel of `batch` matmuls of the sizes mnk, with elements of `size` bytes.
inline void gemm(KernelList& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                 double traffic) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  kernels.push_back({Kernel::Kind::gemm, m, n, k, 1, flops, traffic});
}

inline void batched_gemm(KernelList& kernels, std::int64_t batch, const Shape& mnk, double size) {
  const double m = static_cast<double>(mnk[0]), n = static_cast<double>(mnk[1]),
               k = static_cast<double>(mnk[2]), count = static_cast<double>(batch);
  kernels.push_back({Kernel::Kind::batched_gemm, mnk[0], mnk[1], mnk[2], batch,
                     2 * count * m * n * k, count * (m * k + k * n + m * n) * size});
}

inline double element_size(const TensorType& type) {
  return static_cast<double>(bits_of(type.dtype)) / 8;
}

}  // namespace meshwright::program
