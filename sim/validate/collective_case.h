// Turns a measured collective into a prediction of the same collective.
#pragma once

#include "sim/validate/evidence.h"

namespace meshwright::sim {

Cluster cluster_of(const CollectiveRow& row, const Machine& machine);

// Returns the time that the row's harness would measure on the cluster. Throws InputError if the
// row names an algorithm that is not modelled.
Seconds predicted_time(const CollectiveRow& row, const Cluster& cluster);

}  // namespace meshwright::sim
