// Failures of a cluster whose hosts are lost without notice every so often and replaced at once:
// what closed forms are known for.
#pragma once

#include "hwprofiles/failures.h"
#include "models/core/rooms.h"

namespace meshwright::tests {

// `mean_s`: between two failures of one host.
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
