#include "exec/comm/staged.h"
#include "exec/engine/cuda_world.h"

namespace meshwright::exec {

MakeWorldOn meet_on_gpus(const EngineOptions&, World& host, int) {
  return [&host](CudaBackend& gpu) { return make_staged_world(host, gpu); };
}

}  // namespace meshwright::exec
