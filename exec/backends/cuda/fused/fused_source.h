// Generates the CUDA source of a fused operation: one kernel that takes each row once through all
// its steps. It only makes a text. exec/backends/cuda/fused/nvrtc.h compiles it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/program/graph/fusion.h"

namespace meshwright::cuda {

// Returns the code that all kernels share: 16-bit types, vector accesses, sums over a row, Philox,
// the activation functions. It must appear once before any number of kernels.
std::string_view fused_prelude();

// The kernel `name`, how to launch it, and in this order its arguments:
//   the addresses of `operands` (each aligned to 16 bytes);
//   where partial_bytes > 0, that many bytes of scratch memory, which need not be cleared;
//   where it counts positions, FirstSequence's address and offset (exec/backends/cuda/kernels.h),
//   and OpContext's int tensor_rank, context_rank;
//   an unsigned long long for each of `keys`, so that modules which differ in their dropout_key
//   share a kernel.
// Where there are `sums`, the kernel `name`_sums then adds the partial sums to them: its arguments
// are an unsigned int whose bit i says that sum i is overwritten instead, that scratch memory and
// the sums' addresses.
struct FusedKernel {
  std::string name, source;
  std::int64_t blocks = 0;
  int threads = 0;                // of a block
  std::int64_t shared_bytes = 0;  // dynamic shared memory of a block
  std::vector<int> operands;
  std::int64_t partial_bytes = 0;
  bool counts_positions = false;
  std::vector<std::uint64_t> keys;
  std::vector<int> sums;
  std::int64_t sum_blocks = 0;
  int sum_threads = 0;
};

// Generates the kernel for the steps of Loop::blocks, or for those of Loop::product_first that
// follow the matmul. Results are those of the steps one by one: what a step makes is rounded to its
// operand's type, and sums are in fp32 and in an order that depends only on the shapes. Throws
// NotSupportedYet, which says why there is no kernel: a matmul, an operation without a CUDA form, a
// type, rows too long.
FusedKernel fused_kernel(const Fusion& fusion, const std::string& name);

}  // namespace meshwright::cuda
