// Estimates how long a run takes to begin: until rented hosts are there, and until they have read
// the weights that the run begins with.
#pragma once

#include "hwprofiles/machine.h"
#include "models/job/job.h"

namespace meshwright::sim {

struct StartOfRun {
  double hosts_s = 0;    // from asking for rented hosts to having them
  double weights_s = 0;  // each host reads all weights
  double total_s() const { return hosts_s + weights_s; }
};

// Returns the start of a job's run. A job that does not say how long it is has none, because its
// answers are those of one step. Rented hosts take failures.replacement_s, by default an
// assumption of ten minutes. Own hosts, and machines without prices, take no time. A job with
// adapters reads a published model, in 16 bits, at failures.checkpoint_bytes_per_s, by default the
// rate of Llama 3's clusters. Other jobs begin with random weights.
StartOfRun start_of_run(const Job& job, const Training& training, const Cluster& cluster);

}  // namespace meshwright::sim
