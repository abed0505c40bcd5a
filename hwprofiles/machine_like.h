// Finds the known machine that has the GPUs that a driver reports.
#pragma once

#include <optional>

#include "hwprofiles/machine.h"

namespace meshwright::hwprofiles {

// Returns the known machine whose GPUs are most like `gpu`, or none. Reads the name ("NVIDIA H100
// 80GB HBM3"), the multiprocessors and the memory of `gpu`, as a driver reports them. The machine's
// GPUs must be of the same kind and have the same number of multiprocessors. Among several
// machines, one with the same memory (within 10 %) is preferred, then one with `gpus` GPUs.
std::optional<Machine> machine_like(const Gpu& gpu, int gpus);

}  // namespace meshwright::hwprofiles
