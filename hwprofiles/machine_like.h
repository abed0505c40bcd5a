// Finds the known machine that has the GPUs that a driver reports.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"

namespace meshwright {

// Returns a known machine whose GPUs are of the kind of `gpu` and have the same number of
// multiprocessors, or none if there is none. `gpu` has the driver's name ("NVIDIA H100 80GB HBM3"),
// multiprocessors and memory. Of several machines, it is the one with the same memory, then the one
// with `gpus` GPUs.
std::optional<Machine> machine_like(const Gpu& gpu, int gpus);

}  // namespace meshwright
