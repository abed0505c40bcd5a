// Properties of the one emulated device, its errors, the listing of requests, and conversions of
// 16-bit numbers.
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "exec/core/half.h"
#include "tests/cuda_emulation/lock.h"

namespace emulated {

namespace {
cudaError_t last = cudaSuccess;
Hardware current;
Listing* lists = nullptr;
}  // namespace

cudaError_t failed(cudaError_t error) { return last = error; }

const Hardware& hardware() { return current; }
OtherHardware::OtherHardware(const Hardware& other) : before_(std::exchange(current, other)) {}
OtherHardware::~OtherHardware() { current = before_; }

Listing::Listing() { lists = this; }
Listing::~Listing() { lists = nullptr; }
Listing* listing() { return lists; }

}  // namespace emulated

using namespace emulated;

cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last; }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidKernelImage:
      return "device kernel image is invalid";
    case cudaErrorSymbolNotFound:
      return "named symbol not found";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int) {
  *can = 0;
  return cudaSetDevice(device);
}
cudaError_t cudaDeviceGetPCIBusId(char* name, int length, int device) {
  std::snprintf(name, static_cast<std::size_t>(length), "0000:00:00.0");
  return cudaSetDevice(device);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated");
  std::size_t free = 0;
  cudaMemGetInfo(&free, &properties->totalGlobalMem);
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = hardware().shared_bytes;
  properties->sharedMemPerMultiprocessor = hardware().shared_bytes + 1024;
  properties->major = hardware().major;
  properties->minor = hardware().minor;
  properties->multiProcessorCount = hardware().multiprocessors;
  properties->warpSize = warpSize;
  properties->maxThreadsPerBlock = 1024;
  properties->regsPerBlock = 65536;
  properties->l2CacheSize = 50 << 20;
  return cudaSetDevice(device);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t result = cudaGetDeviceProperties(&properties, device);
  const auto set = [&](auto number) { *value = static_cast<int>(number); };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      set(properties.maxThreadsPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      set(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrClockRate:
      set(1'000'000);
      break;
    case cudaDevAttrMultiProcessorCount:
      set(properties.multiProcessorCount);
      break;
    case cudaDevAttrComputeCapabilityMajor:
      set(properties.major);
      break;
    case cudaDevAttrComputeCapabilityMinor:
      set(properties.minor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      set(properties.sharedMemPerBlockOptin);
      break;
  }
  return result;
}

float float_of_half(unsigned short bits) {
  static const std::vector<float> all = [] {
    std::vector<float> values(0x10000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          meshwright::exec::reference_value(meshwright::exec::Half{static_cast<std::uint16_t>(i)});
    return values;
  }();
  return all[bits];
}
unsigned short half_of_float(float x) { return meshwright::exec::reference_half(x).bits; }
