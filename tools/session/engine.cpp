#include "tools/session/engine.h"

#include <cstdlib>

#include "models/core/error.h"

namespace meshwright::session {

std::string cache_folder() {
  const auto in = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  const std::string cache = in("XDG_CACHE_HOME");
  if (cache.empty() && in("HOME").empty()) return "";
  return (cache.empty() ? in("HOME") + "/.cache" : cache) + "/meshwright";
}

std::string kernel_folder() {
  const std::string cache = cache_folder();
  return cache.empty() ? "" : cache + "/kernels";
}

int gpus_here() {
  const EngineKind* cuda = engine_kind("cuda");
  return cuda == nullptr ? 0 : cuda->devices();
}

GpuHere gpu_here(int index) {
  const EngineKind* cuda = engine_kind("cuda");
  if (cuda == nullptr) throw InputError("this build has no CUDA backend");
  const DeviceDescription device = cuda->facts(index);
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

Engine make_engine(const Cluster& cluster, EngineOptions options, World& host, double deadline_s) {
  if (cluster.machine.gpu.kind != DeviceKind::gpu) return make_cpu_engine(options, host);
  options.ranks_per_host = cluster.processes_per_host;
  options.deadline_s = deadline_s;
  options.kernel_folder = kernel_folder();
  options.nccl_shares_devices = std::getenv("MESHWRIGHT_NCCL_SHARES_GPUS") != nullptr;
  options.nccl_windows = std::getenv("MESHWRIGHT_NCCL_WINDOWS") != nullptr;
  // Matmuls must leave free the multiprocessors that NCCL may take, so they use NCCL's limit.
  if (const char* most = std::getenv("NCCL_MAX_CTAS"); most != nullptr)
    options.left_to_collectives = std::atoi(most);
  const std::string profile = "the profile is of a GPU (" + cluster.machine.gpu.name + ")";
  const EngineKind* cuda = engine_kind("cuda");
  if (cuda == nullptr)
    throw InputError(profile + ", and this build has no CUDA backend: build the preset `cuda`");
  Engine engine = cuda->make(options, host);
  if (engine.backend == nullptr)
    throw InputError(profile +
                     ", but this computer has none, or no driver for it; `meshwright calibrate` "
                     "measures this computer as it is");
  return engine;
}

}  // namespace meshwright::session
