// Replaces the functions of the CUDA driver that PyTorch and Triton call themselves, in addition to
// the runtime.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tools/stand_in/device.h"
#include "tools/stand_in/log.h"
#include "tools/stand_in/memory.h"

using namespace meshwright::stand_in;

namespace {

CUcontext context() { return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(0x1000)); }

// Stands for a function of a module that was loaded while the program ran (Triton, NVRTC).
struct Function {
  std::uint32_t name;
};

CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* number, int ordinal) {
  *number = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = device().count;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* text, int bytes, CUdevice) {
  std::strncpy(text, device().name.c_str(), static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice number) {
  cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute),
                         number);  // both have the same numbers
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* found, CUdevice) {
  *found = context();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* found) {
  *found = context();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext* found) { return cuCtxGetCurrent(found); }
CUresult cuCtxGetDevice(CUdevice* number) {
  *number = current_device();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  cudaDeviceSynchronize();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetLimit(CUlimit, std::size_t) { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(std::size_t* value, CUlimit) {
  *value = std::size_t{1} << 20;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  cudaStreamCaptureStatus found = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &found);
  *status = static_cast<CUstreamCaptureStatus>(found);  // both have the same numbers
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "error of the stand-in GPU";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) { return cuGetErrorString(error, text); }
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    std::memcpy(value, &address, sizeof address);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(new char);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoad(CUmodule* module, const char*) { return cuModuleLoadData(module, nullptr); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = reinterpret_cast<CUfunction>(new Function{number_of(name)});
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads,
                                                     std::size_t) {
  *blocks = threads > 0 && threads < 2048 ? 2048 / threads : 1;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned tx,
                        unsigned ty, unsigned tz, unsigned shared, CUstream stream, void**,
                        void**) {
  forget_what_is_there(false);
  append({.stream = reinterpret_cast<std::uint64_t>(stream),
          .numbers = {std::uint64_t{x} * y * z, std::uint64_t{tx} * ty * tz, shared},
          .name = reinterpret_cast<Function*>(function)->name,
          .kind = Kind::launch});
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* how, CUfunction function, void** arguments,
                          void** more) {
  return cuLaunchKernel(function, how->gridDimX, how->gridDimY, how->gridDimZ, how->blockDimX,
                        how->blockDimY, how->blockDimZ, how->sharedMemBytes, how->hStream,
                        arguments, more);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                                   unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                                   CUstream stream, void** arguments) {
  return cuLaunchKernel(function, x, y, z, tx, ty, tz, shared, stream, arguments, nullptr);
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

// Returns a function of the driver by its name, as PyTorch asks for it. Functions that this library
// lacks report that they are not supported.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = dlsym(RTLD_DEFAULT, name);
  if (*function == nullptr) *function = dlsym(RTLD_DEFAULT, (std::string(name) + "_v2").c_str());
  Dl_info info{};
  if (*function == nullptr || dladdr(*function, &info) == 0 ||
      std::strstr(info.dli_fname, "stand_in") == nullptr)
    *function = reinterpret_cast<void*>(not_supported);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
}
