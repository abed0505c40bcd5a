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

int gpus_here() {
  // Each stream has a queue of its own; the driver reads it at the first call, which is here.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return cuda_devices();
}

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
std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return variables;
}

// Over NCCL where every rank has a GPU of its own, else through host memory. Rank 0 says once what
// one wants to know when a group of GPUs is slow.
std::unique_ptr<World> world_of(std::span<const DevicePlace> places, CudaBackend& gpu, World& host,
                                double deadline_s) {
  const bool own = are_distinct(places);
  const bool says = host.rank() == 0 && host.size() > 1;
  if (says && !own)
    std::fprintf(stderr,
                 "warning: %d ranks share GPUs, and talk through host memory: for tests only\n",
                 host.size());
  // NCCL refuses ranks that share a GPU, unless it is made to believe in other hosts: docs/gpu.md.
  if (!own && std::getenv("MESHWRIGHT_NCCL_SHARES_GPUS") == nullptr)
    return make_staged_world(host, gpu);
  if (says) std::fputs(describe_devices(places, environment()).c_str(), stderr);
  return make_nccl_world(host, gpu, deadline_s);
}
#endif

Engine engine_on_gpu(const Cluster& cluster, const EngineOptions& options, World& host,
                     [[maybe_unused]] double deadline_s) {
  const int gpus = gpus_here();
  const int device = gpus == 0 ? -1 : host.rank() % cluster.processes_per_host % gpus;
#ifdef MESHWRIGHT_HAS_NCCL
  const std::vector<DevicePlace> places = device_places(host, device);
#endif
  if (device < 0)
    throw InputError("the profile is of a GPU (" + cluster.machine.gpu.name +
                     "), but this computer has none, or no driver for it; `meshwright calibrate` "
                     "measures this computer as it is");
  std::unique_ptr<CudaBackend> gpu =
      make_cuda_backend({.device = device,
                         .tf32 = options.precision == Precision::tf32,
                         .fp8 = options.precision == Precision::fp8,
                         .deterministic = options.deterministic,
                         .folder = kernel_folder()});
#ifdef MESHWRIGHT_HAS_NCCL
  std::unique_ptr<World> world = world_of(places, *gpu, host, deadline_s);
#else
  std::unique_ptr<World> world = make_staged_world(host, *gpu);
#endif
  return {std::move(gpu), std::move(world)};
}

}  // namespace

#else

int gpus_here() { return 0; }

GpuHere gpu_here(int) { throw InputError("this build has no CUDA backend"); }

namespace {

Engine engine_on_gpu(const Cluster& cluster, const EngineOptions&, World&, double) {
  throw InputError("the profile is of a GPU (" + cluster.machine.gpu.name +
                   "), and this build has no CUDA backend: build the preset `cuda`");
}

}  // namespace

#endif

Engine make_engine(const Cluster& cluster, const EngineOptions& options, World& host,
                   double deadline_s) {
  if (cluster.machine.gpu.kind == DeviceKind::gpu)
    return engine_on_gpu(cluster, options, host, deadline_s);
  return {make_cpu_backend(options.threads), nullptr};
}

}  // namespace meshwright
