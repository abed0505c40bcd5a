// Generates the CUDA source of a fused operation: one kernel that reads each row once and takes it
// through all steps. nvrtc.h compiles the source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/program/graph/fusion.h"

namespace meshwright::exec::cuda {

// Returns the code that all generated kernels share: 16-bit types, vector accesses, sums over a
// row, Philox, and the activation functions. A source must have it once, before its kernels.
std::string_view fused_prelude();

// The generated kernel `name`, how to launch it, and its arguments, in this order:
//   the addresses of `operands` (each aligned to 16 bytes);
//   if partial_bytes > 0, the address of that many bytes of scratch memory, which need not be
//   cleared; if it counts positions, FirstSequence's address and offset
//   (exec/backends/cuda/kernels.h), and OpContext's int tensor_rank, context_rank; an unsigned long
//   long for each of `keys`, so that modules which differ in their dropout_key share a kernel.
// If there are `sums`, a second kernel, `name`_sums, then adds the partial sums to them. Its
// arguments are an unsigned int whose bit i says that sum i is overwritten instead, the address of
// the scratch memory, and the sums' addresses.
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
// follow the matmul. Its results are those of the steps one by one: each step's result is rounded
// to its operand's type, and sums are in fp32, in an order that depends only on the shapes. Throws
// NotSupportedYet if there can be no kernel, because of a matmul, an operation without a CUDA form,
// a type, or rows that are too long.
FusedKernel fused_kernel(const Fusion& fusion, const std::string& name);

}  // namespace meshwright::exec::cuda
