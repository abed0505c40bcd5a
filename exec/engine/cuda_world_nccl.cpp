#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "exec/comm/nccl.h"
#include "exec/comm/staged.h"
#include "exec/engine/cuda_world.h"

namespace meshwright::exec {

namespace {

std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return variables;
}

// Returns a world over NCCL if every rank has a GPU of its own or nccl_shares_devices is set,
// otherwise one through host memory. If there are several ranks, rank 0 prints a warning if they
// share GPUs, and the versions, variables and places that explain why NCCL may be slow.
std::unique_ptr<World> world_of(std::span<const DevicePlace> places, CudaBackend& gpu, World& host,
                                const EngineOptions& options) {
  const bool own = are_distinct(places);
  const bool says = host.rank() == 0 && host.size() > 1;
  if (says && !own)
    std::fprintf(stderr,
                 "warning: %d ranks share GPUs, and talk through host memory: for tests only\n",
                 host.size());
  // NCCL rejects ranks that share a GPU, unless it takes them for ranks of different hosts.
  if (!own && !options.nccl_shares_devices) return make_staged_world(host, gpu);
  if (says) std::fputs(describe_devices(places, environment()).c_str(), stderr);
  return make_nccl_world(host, gpu, options.deadline_s, options.nccl_windows);
}

}  // namespace

MakeWorldOn meet_on_gpus(const EngineOptions& options, World& host, int device) {
  return [&options, &host, places = device_places(host, device)](CudaBackend& gpu) {
    return world_of(places, gpu, host, options);
  };
}

}  // namespace meshwright::exec
