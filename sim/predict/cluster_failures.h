// Describes how a cluster fails while it trains one plan, cause by cause, and what a checkpoint of
// the plan takes: the numbers behind the closed form of goodput.h and the simulated runs of
// sim/risk.
#pragma once

#include <vector>

#include "sim/predict/predict.h"

namespace meshwright::sim {

struct FailureSource {
  FailureCause cause = FailureCause::hardware;
  double per_s = 0;        // of all hosts together
  double notice_s = 0;     // before it
  double detection_s = 0;  // after it
  bool loses_host = false;
};

struct ClusterFailures {
  std::vector<FailureSource> sources;  // those that happen at all
  double restart_s = 0;                // from all hosts being there to the first step
  double replacement_s = 0;            // from asking for a host to having it
  int spares = 0;
  double stall_s = 0;  // training stands still while the state is copied
  double write_s = 0;  // of the copy, beside training

  double per_s() const;  // of all causes
  // Returns whether a checkpoint can be written between the notice and the failure.
  bool can_save(const FailureSource& source) const {
    return source.notice_s > 0 && source.notice_s >= stall_s + write_s;
  }
};

// copies_to_peers() returns whether hosts write checkpoints over their network cards into the
// memory of other hosts (`peer_memory`). A single host has no peer and writes to the storage.
// failures_alone() returns what does not depend on a plan: in it, checkpoints take no time.
// cluster_failures() adds what checkpoints take, of which all hosts write equal shares. Both
// functions require that `cluster` has failures. checkpoint_bytes() returns the bytes of a plan's
// checkpoint: 4 per trained parameter for the weight, for each moment and for an average of
// weights.
bool copies_to_peers(const Failures& failures, const Cluster& cluster);
ClusterFailures failures_alone(const Cluster& cluster);
ClusterFailures cluster_failures(double checkpoint_bytes, const Cluster& cluster);
double checkpoint_bytes(const Compiled& compiled);

}  // namespace meshwright::sim
