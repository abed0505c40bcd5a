// Which known machine has the GPUs that a driver names.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"

namespace meshwright {

// `gpu`: the driver's name ("NVIDIA H100 80GB HBM3"), multiprocessors and memory. A known machine
// whose GPUs are of that kind and have as many multiprocessors; of several the one with as much
// memory, then the one with `gpus` of them. None: not known.
std::optional<Machine> machine_like(const Gpu& gpu, int gpus);

}  // namespace meshwright
