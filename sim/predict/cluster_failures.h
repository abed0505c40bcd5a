// Describes how a cluster fails while it trains one plan, cause by cause, and what a checkpoint of
// the plan takes: the numbers behind the closed form of goodput.h and the simulated runs of
// sim/risk.
#pragma once

#include <vector>

#include "sim/predict/predict.h"

namespace meshwright::sim {

struct FailureSource {
  FailureCause cause = FailureCause::hardware;
  double per_s = 0;        // failures per second of all hosts together
  double notice_s = 0;     // seconds of notice before the failure
  double detection_s = 0;  // seconds after the failure until it is detected
  bool loses_host = false;
};

struct ClusterFailures {
  std::vector<FailureSource> sources;  // the causes of failures that have a rate above 0
  double restart_s = 0;                // seconds from all hosts being there to the first step
  double replacement_s = 0;            // seconds from asking for another host to having it
  int spares = 0;
  double stall_s = 0;  // seconds in which training stands still while the state is copied
  double write_s = 0;  // seconds to write the copy, while training goes on

  double per_s() const;  // rate of all causes together
  // Returns whether a checkpoint can be written between the notice and the failure.
  bool can_save(const FailureSource& source) const {
    return source.notice_s > 0 && source.notice_s >= stall_s + write_s;
  }
};

// copies_to_peers() returns whether hosts write checkpoints over their network cards into the
// memory of other hosts (`peer_memory`). A single host has no peer and writes to the storage.
// failures_alone() returns the failures of a cluster if checkpoints take no time, so that they do
// not depend on a plan. cluster_failures() adds the time of checkpoints with `checkpoint_bytes`, of
// which all hosts write equal shares. Both functions require that `cluster` has failures.
// checkpoint_bytes() returns the bytes of a plan's checkpoint: 4 bytes per trained parameter for
// the weight, for each moment and for an average of weights.
bool copies_to_peers(const Failures& failures, const Cluster& cluster);
ClusterFailures failures_alone(const Cluster& cluster);
ClusterFailures cluster_failures(double checkpoint_bytes, const Cluster& cluster);
double checkpoint_bytes(const Compiled& compiled);

}  // namespace meshwright::sim
