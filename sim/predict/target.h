// Describes a cluster to the compiler.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compiler/compile.h"

namespace meshwright::sim {

// Share of a device's memory that plans leave free by default, because allocators split memory into
// pieces, and predicted peaks are not exact.
inline constexpr double usual_memory_margin = 0.03;

DeviceFacts device_facts(const Cluster& cluster, Precision precision);

// Returns the target of the compiler. `cluster` must outlive it. `usable` is the share of a
// device's memory that plans may take.
Target target_of(const Cluster& cluster, const StepSettings& training,
                 double usable = 1 - usual_memory_margin);

}  // namespace meshwright::sim
