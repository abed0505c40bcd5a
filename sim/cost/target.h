// A cluster as the compiler asks for it.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compile/compile.h"

namespace meshwright {

DeviceFacts device_facts(const Cluster& cluster, Precision precision);
Target target_of(const Cluster& cluster, const StepSettings& training);

}  // namespace meshwright
