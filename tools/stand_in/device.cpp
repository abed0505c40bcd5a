#include "tools/stand_in/device.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace meshwright::stand_in {

namespace {

thread_local int current = 0;

std::size_t number(const char* key, std::size_t otherwise) {
  const char* const text = std::getenv(key);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

Device from_environment() {
  Device found;
  found.count = static_cast<int>(number("MESHWRIGHT_STAND_IN_COUNT", 1));
  if (const char* name = std::getenv("MESHWRIGHT_STAND_IN_NAME")) found.name = name;
  found.capability = static_cast<int>(number("MESHWRIGHT_STAND_IN_CAPABILITY", 90));
  found.multiprocessors = static_cast<int>(number("MESHWRIGHT_STAND_IN_MULTIPROCESSORS", 132));
  found.bytes = number("MESHWRIGHT_STAND_IN_BYTES", found.bytes);
  return found;
}

// Returns the most bytes of shared memory that a block may ask for, by NVIDIA's tables of compute
// capabilities. A capability that is not listed here gets the bytes of Hopper (90).
int shared_bytes() {
  switch (device().capability) {
    case 70:
      return 98304;
    case 75:
      return 65536;
    case 80:
      return 166912;
    case 86:
    case 89:
    case 120:
    case 121:
      return 101376;
    default:
      return 232448;
  }
}

}  // namespace

namespace {

Device& the_device() {
  static Device the = from_environment();
  return the;
}

}  // namespace

const Device& device() { return the_device(); }

int current_device() { return current; }
void use_device(int number) { current = number; }

}  // namespace meshwright::stand_in

using namespace meshwright::stand_in;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device().count;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = meshwright::stand_in::current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= device().count) return cudaErrorInvalidDevice;
  meshwright::stand_in::use_device(number);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number < 0 || number >= device().count) return cudaErrorInvalidDevice;
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "%s", device().name.c_str());
  properties->uuid.bytes[0] = static_cast<char>(number + 1);
  properties->totalGlobalMem = device().bytes;
  properties->major = device().capability / 10;
  properties->minor = device().capability % 10;
  properties->multiProcessorCount = device().multiprocessors;
  properties->warpSize = 32;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerBlockOptin = static_cast<std::size_t>(shared_bytes());
  properties->sharedMemPerMultiprocessor = static_cast<std::size_t>(shared_bytes()) + 1024;
  properties->l2CacheSize = 50 << 20;
  properties->memoryBusWidth = 5120;
  properties->totalConstMem = 65536;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 3;
  properties->unifiedAddressing = 1;
  properties->managedMemory = 1;
  properties->pciBusID = number + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*number*/) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = device().capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device().capability % 10;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = device().multiprocessors;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = shared_bytes();
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 49152;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = shared_bytes() + 1024;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      break;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = 1024;
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = 64;
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = 65536;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = 32;
      break;
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = 65536;
      break;
    case cudaDevAttrL2CacheSize:
      *value = 50 << 20;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      break;
    case cudaDevAttrClockRate:
      *value = 1755000;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = 2619000;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 5120;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int number) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", number + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "error of the stand-in GPU";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// Returns the version of CUDA whose structures this library has. A PyTorch for another version
// would misread them.
int meshwright_stand_in_cuda() { return CUDART_VERSION; }
// Sets how much memory programs may take, once it is known how many ranks there are.
void meshwright_stand_in_limit(std::size_t bytes) { the_device().bytes = bytes; }
}
