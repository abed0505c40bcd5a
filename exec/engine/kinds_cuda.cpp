// The table of engines of a program that can use NVIDIA's GPUs.
#include "exec/backends/cuda/cuda_backend.h"
#include "exec/engine/engine.h"

namespace meshwright::exec {

namespace {
constexpr EngineKind kinds[] = {{"cpu", nullptr, nullptr, make_cpu_engine},
                                {"cuda", cuda_devices_here, cuda_device, make_cuda_engine}};
}  // namespace

std::span<const EngineKind> engine_kinds() { return kinds; }

}  // namespace meshwright::exec
