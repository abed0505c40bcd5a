// Generates the CUDA source of a fused operation: a kernel that takes each row through all steps,
// and a second kernel if gradients are summed over rows. nvrtc.h compiles the source.
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

// The generated kernel `name`, and how to launch it. Its first arguments are the addresses of
// `operands`, each aligned to 16 bytes. If partial_bytes > 0, the next one is the address of as
// many bytes of scratch memory, which need not be cleared. If counts_positions is set, the next
// ones are the two members of FirstSequence (exec/backends/cuda/kernels.h) and the tensor_rank and
// context_rank of OpContext. The last ones are `keys`, each an unsigned long long, so that layers
// that differ only in their dropout_key share a kernel.
//
// If there are `sums`, a second kernel, `name`_sums, then adds the partial sums to them. Its
// arguments are an unsigned int whose bit i says that sum i is overwritten instead, the address of
// the scratch memory, and the addresses of the sums.
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
// follow the matmul. Each step's result is rounded to its operand's type, as if the step ran alone.
// Sums are in fp32, in an order that depends only on the shapes and types. Throws NotSupportedYet
// if there can be no kernel, for example because of a matmul, an operation without a CUDA form, a
// type, or rows that are too long.
FusedKernel fused_kernel(const Fusion& fusion, const std::string& name);

}  // namespace meshwright::exec::cuda
