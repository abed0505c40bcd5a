// Predicts the time of a measured collective.
#pragma once

#include "sim/validate/evidence.h"

namespace meshwright::sim {

Cluster cluster_of(const CollectiveRow& row, const Machine& machine);

// Returns the time that the harness of the row would measure on the cluster. Throws InputError if
// the row names an algorithm that is not modelled.
Seconds predicted_time(const CollectiveRow& row, const Cluster& cluster);

}  // namespace meshwright::sim
