#include "tests/cuda_emulation/libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>

#include "tests/cuda_emulation/lock.h"

struct CUkern_st {
  void (*bind)(void** arguments, std::function<void()>* made) = nullptr;
  // The most dynamic shared memory that a block may ask for, in bytes. The 48 KiB that need no
  // permission also hold static variables, for which 1 KiB is taken off.
  std::int64_t shared_bytes = 47 << 10;
};

struct CUlib_st {
  void* library = nullptr;
  std::map<std::string, CUkern_st> kernels;

  ~CUlib_st() {
    if (library != nullptr) dlclose(library);
  }
};

namespace emulated {

namespace {

constexpr char heading[] = "emulated";

// Loads a shared library. dlopen() knows libraries by their paths and may keep them after
// dlclose(). So each library gets a path of its own, which is removed once the library is loaded.
void* loaded(const char* data, std::size_t bytes) {
  std::string path = (std::filesystem::temp_directory_path() / "meshwright-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) throw std::logic_error("no temporary file for a library of kernels");
  close(file);
  std::ofstream(path, std::ios::binary).write(data, static_cast<std::streamsize>(bytes));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove(path);
  // Loading fails if a kernel uses a symbol that the program does not export.
  if (library == nullptr) throw std::logic_error(dlerror());
  return library;
}

}  // namespace

std::string cubin_of(const std::string& shared_library) {
  const std::uint64_t bytes = shared_library.size();
  std::string cubin = heading;
  cubin.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  return cubin + shared_library;
}

}  // namespace emulated

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int, cudaLibraryOption*, void**, unsigned int) {
  const emulated::Lock lock;
  constexpr std::size_t letters = sizeof emulated::heading - 1;
  const char* text = static_cast<const char*>(code);
  if (emulated::is_capturing()) return emulated::failed(cudaErrorStreamCaptureUnsupported);
  if (std::memcmp(text, emulated::heading, letters) != 0)
    return emulated::failed(cudaErrorInvalidKernelImage);
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text + letters, sizeof bytes);
  auto made = std::make_unique<CUlib_st>();
  if (bytes > 0) made->library = emulated::loaded(text + letters + sizeof bytes, bytes);
  *library = made.release();
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const emulated::Lock lock;
  delete library;
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  const emulated::Lock lock;
  CUkern_st found;
  if (library->library != nullptr)
    found.bind = reinterpret_cast<decltype(found.bind)>(
        dlsym(library->library, (std::string("bind_") + name).c_str()));
  if (found.bind == nullptr && emulated::listing() == nullptr)
    return emulated::failed(cudaErrorSymbolNotFound);
  *kernel = &library->kernels.try_emplace(name, found).first->second;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(static_cast<const CUkern_st*>(kernel)->shared_bytes);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value > static_cast<int>(emulated::hardware().shared_bytes))
    return emulated::failed(cudaErrorInvalidValue);
  const_cast<CUkern_st*>(static_cast<const CUkern_st*>(kernel))->shared_bytes = value;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  const auto& known = *static_cast<const CUkern_st*>(kernel);
  const auto bytes = static_cast<std::int64_t>(shared_bytes);
  if (bytes > known.shared_bytes) return emulated::failed(cudaErrorInvalidValue);
  std::function<void()> of_thread;
  if (emulated::listing() == nullptr) known.bind(arguments, &of_thread);
  emulated::launch({blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, bytes, stream,
                   std::move(of_thread));
  return cudaSuccess;
}
