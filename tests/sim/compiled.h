// Compiles a plan for a cluster.
#pragma once

#include "models/compiler/compile.h"
#include "sim/predict/target.h"

namespace meshwright::tests {

inline Compiled compiled_for(const Model& model, const Plan& plan, const Cluster& cluster) {
  return compile(model, plan, target_of(cluster, plan.training));
}

}  // namespace meshwright::tests
