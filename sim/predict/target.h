// A cluster as the compiler asks for it.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compiler/compile.h"

namespace meshwright {

// Share of a GPU's memory that is left free: allocators cut memory into pieces, and predicted peaks
// are not exact.
inline constexpr double usual_memory_margin = 0.03;

DeviceFacts device_facts(const Cluster& cluster, Precision precision);

// `cluster` stays where it is. `usable`: the share of a device's memory that plans may take.
Target target_of(const Cluster& cluster, const StepSettings& training,
                 double usable = 1 - usual_memory_margin);

}  // namespace meshwright
