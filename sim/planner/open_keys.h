// Lists the values that each key of a plan may have: the job's value if the job fixes it, otherwise
// all values that make sense. space.cpp combines the lists and leaves out what breaks a rule.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "sim/planner/space.h"

namespace meshwright::sim {

struct OpenKeys {
  const Job& job;
  const Plan& base;
  ModelSizes sizes;
  int ranks, ranks_per_host;

  // Returns the values that one key may have: `all` if the job leaves it to the planner, otherwise
  // only `given`, which is the job's.
  template <class T>
  std::vector<T> choices(std::string_view key, T given, std::vector<T> all) const {
    return job.is_auto(key) ? std::move(all) : std::vector<T>{given};
  }
};

// shapes_of() returns the degrees whose product is the number of ranks, each with every way in
// which its context group may exchange. placements_of() returns the job's placement or, if that is
// open, one placement for each order of the axes that have more than one rank.
std::vector<Candidate> shapes_of(const OpenKeys& open);
std::vector<std::string_view> placements_of(const OpenKeys& open, const Candidate& shape);

// If the keys are open, cuts_of() returns 1f1b, zero_bubble, gpipe, and schedules with several
// virtual stages. shardings_of() returns states in as many shards as there are replicas, or in
// fewer, with copies of all shards. The latter are only combined with the first choice of when to
// reduce and whether to keep parameters gathered.
std::vector<PipelineCut> cuts_of(const OpenKeys& open, int pipeline, int micro_batches);
std::vector<Sharding> shardings_of(const OpenKeys& open, const Candidate& shape, int micro_batches);

// If the keys are open, savings_of() leaves out selective recomputation with fused attention, which
// does not save what would be recomputed, and offloads activations only if they are checkpoints of
// recomputation.
std::vector<Kernels> kernels_of(const OpenKeys& open, const Candidate& shape);
std::vector<Saving> savings_of(const OpenKeys& open, const Kernels& kernels);

}  // namespace meshwright::sim
