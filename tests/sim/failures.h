// Makes failures for which closed forms are known: hosts are lost without notice at a constant
// rate, and replaced at once.
#pragma once

#include "hwprofiles/failures.h"
#include "models/core/rooms.h"

namespace meshwright::tests {

// Returns such failures. `mean_s` is the mean time between two failures of one host, in seconds.
inline Failures sudden_failures(double mean_s, double restart_s,
                                double checkpoint_bytes_per_s = 1e9) {
  Failures failures;
  failures.per_host_hour.fill(0);
  failures.per_host_hour[static_cast<std::size_t>(FailureCause::hardware)] = 3600 / mean_s;
  failures.restart_s = restart_s;
  failures.replacement_s = 0;
  failures.checkpoint_bytes_per_s = checkpoint_bytes_per_s;
  return failures;
}

}  // namespace meshwright::tests
