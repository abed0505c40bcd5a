// A measured collective as a question.
#pragma once

#include "sim/validate/evidence.h"

namespace meshwright {

Cluster cluster_of(const CollectiveRow& row, const Machine& machine);

// What the row's harness would have measured on the cluster. InputError where the row names an
// algorithm that is not modelled.
Seconds predicted_time(const CollectiveRow& row, const Cluster& cluster);

}  // namespace meshwright
