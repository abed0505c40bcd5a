// Replaces the registration and the launch of kernels. Programs register kernels by their symbols,
// and launches log these symbols.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/stand_in/log.h"
#include "tools/stand_in/memory.h"

using namespace meshwright::stand_in;

namespace {

struct Kernels {
  std::mutex lock;
  std::unordered_map<const void*, const char*> symbols;
};

Kernels& kernels() {
  static Kernels* const the = new Kernels;
  return *the;
}

const char* symbol_of(const void* function) {
  const std::lock_guard guard(kernels().lock);
  const auto found = kernels().symbols.find(function);
  return found == kernels().symbols.end() ? "unknown kernel" : found->second;
}

struct Named {
  std::uint32_t name;
  bool is_all;  // PyTorch's reduction that tells whether all elements are true
};

Named named(const void* function) {
  thread_local std::unordered_map<const void*, Named> known;
  const auto [found, is_new] = known.try_emplace(function);
  if (is_new) {
    const std::string_view symbol = symbol_of(function);
    found->second = {number_of(symbol), symbol.find("and_kernel_cuda") != symbol.npos};
  }
  return found->second;
}

std::uint64_t count(dim3 size) { return std::uint64_t{size.x} * size.y * size.z; }

cudaError_t launched(const void* function, dim3 grid, dim3 block, std::size_t shared,
                     cudaStream_t stream) {
  const Named kernel = named(function);
  forget_what_is_there(kernel.is_all);
  append({.stream = reinterpret_cast<std::uint64_t>(stream),
          .numbers = {count(grid), count(block), shared},
          .name = kernel.name,
          .kind = Kind::launch});
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* symbol, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  const std::lock_guard guard(kernels().lock);
  kernels().symbols[function] = symbol;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                               std::size_t shared, cudaStream_t stream) {
  return launched(kernel, grid, block, shared, stream);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**,
                             std::size_t shared, cudaStream_t stream) {
  return launched(function, grid, block, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void**,
                                        std::size_t shared, cudaStream_t stream) {
  return launched(function, grid, block, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* function, void**) {
  return launched(function, how->gridDim, how->blockDim, how->dynamicSmemBytes, how->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t) {
  *blocks = threads > 0 && threads < 2048 ? 2048 / threads : 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, std::size_t shared,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
}
