// Chooses the machines that are worth a search if a job allows many.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/clusters.h"

namespace meshwright::sim {

struct Shortlist {
  std::vector<std::string> machines;  // machines that are worth a search
  std::vector<std::string> left_out;
};

// Returns at most `most` machines of the job: those with the highest peak FLOP/s of a host or, if
// the objective counts money, with the highest peak FLOP/s per dollar. Machines without a price
// then come last. At most two machines with the same kind of GPU are chosen. If the job has at most
// `most` machines, all are chosen.
Shortlist shortlist(const Job& job, const MachineLoader& load, std::size_t most);

}  // namespace meshwright::sim
