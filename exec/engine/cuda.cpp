// Makes the engine of a rank that computes on one of its host's GPUs.
#include <cstdlib>

#include "exec/backends/cuda/cuda_backend.h"
#include "exec/engine/cuda_world.h"
#include "exec/engine/engine.h"

namespace meshwright::exec {

int cuda_devices_here() {
  // Gives each stream a hardware queue of its own, unless the user has set the variable. The driver
  // reads it at its first call, so it must be set before.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return cuda_devices();
}

Engine make_cuda_engine(const EngineOptions& options, World& host) {
  const int gpus = cuda_devices_here();
  const int device = gpus == 0 ? -1 : host.rank() % options.ranks_per_host % gpus;
  const MakeWorldOn make_world_on = meet_on_gpus(options, host, device);
  if (device < 0) return {};
  std::unique_ptr<CudaBackend> gpu =
      make_cuda_backend({.device = device,
                         .tf32 = options.precision == Precision::tf32,
                         .deterministic = options.deterministic,
                         .folder = options.kernel_folder,
                         .left_to_collectives = host.size() > 1 ? options.left_to_collectives : 0});
  std::unique_ptr<World> world = make_world_on(*gpu);
  return {std::move(gpu), std::move(world)};
}

}  // namespace meshwright::exec
