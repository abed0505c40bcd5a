// Chooses the machines of a large group that are worth a search.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/clusters.h"

namespace meshwright::sim {

struct Shortlist {
  std::vector<std::string> machines;  // to search
  std::vector<std::string> left_out;
};

// Returns at most `most` machines of the job, those first whose peak FLOP/s are most, for a dollar
// if the objective counts money, else of all hosts. Of one kind of GPU there are at most two
// machines. A job with no more than `most` machines keeps them all.
Shortlist shortlist(const Job& job, const MachineLoader& load, std::size_t most);

}  // namespace meshwright::sim
