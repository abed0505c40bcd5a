// Replaces the functions of NVML that PyTorch and pynvml call. They are declared here, because
// NVML's header is in no package of CUDA's libraries. The handle of a device is its number + 1. A
// function returns 0 if it succeeds.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tools/stand_in/device.h"
#include "tools/stand_in/memory.h"

using namespace meshwright::stand_in;

namespace {

constexpr int kDone = 0, kNotSupported = 3;
constexpr int kCudaVersion = 13000, kIdleCelsius = 40, kIdleMilliwatts = 100000, kMegahertz = 1755;

struct Size {
  unsigned long long total, free, used;
};

void* of(int number) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(number) + 1); }
int number_of_device(void* device) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(device)) - 1;
}

int text(char* to, unsigned bytes, const char* value) {
  std::snprintf(to, bytes, "%s", value);
  return kDone;
}

int set(unsigned* to, unsigned value) {
  *to = value;
  return kDone;
}

}  // namespace

extern "C" {

int nvmlInit() { return kDone; }
int nvmlInit_v2() { return kDone; }
int nvmlInitWithFlags(unsigned) { return kDone; }
int nvmlShutdown() { return kDone; }
const char* nvmlErrorString(int) { return "error of the stand-in of NVML"; }
int nvmlSystemGetDriverVersion(char* to, unsigned bytes) { return text(to, bytes, "580.0"); }
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = kCudaVersion;
  return kDone;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  return set(count, static_cast<unsigned>(device().count));
}
int nvmlDeviceGetHandleByIndex_v2(unsigned number, void** found) {
  *found = of(static_cast<int>(number));
  return kDone;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** found) {
  unsigned number = 1;  // the first device has bus 1 (device.cpp)
  if (std::sscanf(bus, "%*x:%x", &number) != 1) return kNotSupported;
  *found = of(static_cast<int>(number) - 1);
  return kDone;
}
int nvmlDeviceGetHandleByUUID(const char*, void** found) {
  *found = of(current_device());
  return kDone;
}
int nvmlDeviceGetName(void*, char* to, unsigned bytes) {
  return text(to, bytes, device().name.c_str());
}
int nvmlDeviceGetUUID(void* one, char* to, unsigned bytes) {
  std::snprintf(to, bytes, "GPU-%02x000000-0000-0000-0000-000000000000", number_of_device(one) + 1);
  return kDone;
}
int nvmlDeviceGetMemoryInfo(void* one, Size* size) {
  const std::size_t used = used_bytes(number_of_device(one));
  *size = {device().bytes, device().bytes - used, used};
  return kDone;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* of_gpu_and_memory) {
  of_gpu_and_memory[0] = of_gpu_and_memory[1] = 0;
  return kDone;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return set(celsius, kIdleCelsius); }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  return set(milliwatts, kIdleMilliwatts);
}
int nvmlDeviceGetClockInfo(void*, int, unsigned* megahertz) { return set(megahertz, kMegahertz); }
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = device().capability / 10;
  *minor = device().capability % 10;
  return kDone;
}
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) { return set(count, 0); }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) { return set(count, 0); }

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return kNotSupported; }
int nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }
}
