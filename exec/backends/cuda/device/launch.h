// Starts kernels and gives them dynamic shared memory. There is a version for the compiler of CUDA
// and one for the emulated device of the tests (tests/cuda_emulation).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>

#include "exec/backends/cuda/device/check.h"
#include "models/core/error.h"

namespace meshwright::exec::cuda {

struct Shape3 {
  unsigned int x = 1, y = 1, z = 1;
};

// Returns how many blocks serve `count` things if each block serves `of_block` of them. An internal
// check fails if they are more than 2^31 - 1, which is the most in a grid's x dimension.
inline unsigned int blocks_for(std::int64_t count, std::int64_t of_block) {
  const std::int64_t blocks = (count + of_block - 1) / of_block;
  MESHWRIGHT_CHECK(count >= 0 && blocks <= 0x7fffffff, "a grid has at most 2^31 - 1 blocks");
  return static_cast<unsigned int>(blocks);
}

#ifdef __CUDACC__

// Lets blocks of the kernel have `bytes` of dynamic shared memory. 48 KiB need no permission, but
// static variables count too, so up to 40 KiB are taken without one. A permission is never lowered,
// because a captured graph may start the kernel with more.
inline void allow_shared_bytes(const void* kernel, std::int64_t bytes) {
  constexpr std::int64_t without_asking = 40 << 10;
  static std::map<const void*, std::int64_t> allowed;
  if (bytes <= without_asking || allowed[kernel] >= bytes) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
  allowed[kernel] = bytes;
}

// Returns the address of the block's dynamic shared memory, aligned to 128 bytes.
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char bytes[];
  return bytes;
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Shape3 blocks, Shape3 threads, std::int64_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  allow_shared_bytes(reinterpret_cast<const void*>(kernel), shared_bytes);
  kernel<<<dim3(blocks.x, blocks.y, blocks.z), dim3(threads.x, threads.y, threads.z),
           static_cast<std::size_t>(shared_bytes), stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "starting a kernel");
}

#else

using emulated::shared_memory;

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Shape3 blocks, Shape3 threads, std::int64_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  emulated::launch({blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, shared_bytes,
                   stream, [=] { kernel(static_cast<Parameters>(arguments)...); });
  check(cudaGetLastError(), "starting a kernel");
}

#endif

}  // namespace meshwright::exec::cuda
