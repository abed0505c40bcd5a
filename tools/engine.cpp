#include "tools/engine.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/comm/staged.h"
#include "models/core/error.h"
#ifdef MESHWRIGHT_HAS_CUDA
#include "exec/backends/cuda/cuda_backend.h"
#endif
#ifdef MESHWRIGHT_HAS_NCCL
#include "exec/comm/nccl.h"
#endif

namespace meshwright {

std::string kernel_folder() {
  const auto in = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  const std::string cache = in("XDG_CACHE_HOME");
  return (cache.empty() ? in("HOME") + "/.cache" : cache) + "/meshwright/kernels";
}

#ifdef MESHWRIGHT_HAS_CUDA

int gpus_here() { return cuda_devices(); }

GpuHere gpu_here(int index) {
  const CudaDevice device = cuda_device(index);
  GpuHere here;
  here.gpu.name = device.name;
  here.gpu.memory_bytes = device.memory_bytes;
  here.gpu.sm_count = device.multiprocessors;
  here.gpu.clock_hz = device.clock_hz;
  here.gpu.l2_bytes = device.l2_bytes;
  here.generation = device.generation;
  here.workspace_bytes = static_cast<double>(device.workspace_bytes);
  here.reaches_others = device.reaches_others;
  return here;
}

namespace {

#ifdef MESHWRIGHT_HAS_NCCL
// Versions, hosts and GPUs, once in a run: what one wants to know when a group of GPUs is slow.
void say_about_devices(World& host) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  const std::string text = describe_devices(host, variables);
  if (host.rank() == 0) std::fputs(text.c_str(), stderr);
}
#endif

Engine engine_on_gpu(const Cluster& cluster, Precision precision, World& host,
                     [[maybe_unused]] double deadline_s) {
  // Each stream has a queue of its own; the driver reads it at the first call.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const int gpus = cuda_devices();
  if (gpus == 0)
    throw InputError("the profile is of a GPU (" + cluster.machine.gpu.name +
                     "), but this computer has none, or no driver for it; `meshwright calibrate` "
                     "measures this computer as it is");
  const int of_host = host.rank() % cluster.processes_per_host;
  std::unique_ptr<CudaBackend> gpu = make_cuda_backend({.device = of_host % gpus,
                                                        .tf32 = precision == Precision::tf32,
                                                        .fp8 = precision == Precision::fp8,
                                                        .folder = kernel_folder()});
  std::unique_ptr<World> world;
#ifdef MESHWRIGHT_HAS_NCCL
  // NCCL refuses ranks that share a GPU, unless it is made to believe in other hosts: docs/gpu.md.
  const bool tries = std::getenv("MESHWRIGHT_NCCL_SHARES_GPUS") != nullptr;
  if (cluster.processes_per_host <= gpus || tries) world = make_nccl_world(host, *gpu, deadline_s);
  if (world && host.size() > 1) say_about_devices(host);
#endif
  if (!world) world = make_staged_world(host, *gpu);
  return {std::move(gpu), std::move(world)};
}

}  // namespace

#else

int gpus_here() { return 0; }

GpuHere gpu_here(int) { throw InputError("this build has no CUDA backend"); }

namespace {

Engine engine_on_gpu(const Cluster& cluster, Precision, World&, double) {
  throw InputError("the profile is of a GPU (" + cluster.machine.gpu.name +
                   "), and this build has no CUDA backend: build the preset `cuda`");
}

}  // namespace

#endif

Engine make_engine(const Cluster& cluster, Precision precision, int threads, World& host,
                   double deadline_s) {
  if (cluster.machine.gpu.kind == DeviceKind::gpu)
    return engine_on_gpu(cluster, precision, host, deadline_s);
  return {make_cpu_backend(threads), nullptr};
}

}  // namespace meshwright
