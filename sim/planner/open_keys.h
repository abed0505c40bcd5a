// Lists what each key of a plan may be: the job's value if the job fixes it, otherwise all values
// that make sense. space.cpp combines the lists and leaves out what breaks a rule.
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

  // Returns the values that one key may take: `given`, which is the job's, or `all`.
  template <class T>
  std::vector<T> choices(std::string_view key, T given, std::vector<T> all) const {
    return job.is_auto(key) ? std::move(all) : std::vector<T>{given};
  }
};

// shapes_of() returns the degrees whose product is all ranks, each with every way in which its
// context group may exchange. placements_of() returns one placement for each order of the axes that
// have more than one rank.
std::vector<Candidate> shapes_of(const OpenKeys& open);
std::vector<std::string_view> placements_of(const OpenKeys& open, const Candidate& shape);

// cuts_of() returns 1f1b, zero_bubble, gpipe, and the schedules of several virtual stages.
// shardings_of() returns states in as many shards as there are replicas, or in fewer, with copies
// of all shards. The latter are only combined with the usual choices.
std::vector<PipelineCut> cuts_of(const OpenKeys& open, int pipeline, int micro_batches);
std::vector<Sharding> shardings_of(const OpenKeys& open, const Candidate& shape, int micro_batches);

// savings_of() leaves out selective recomputation with fused attention, which does not save what
// would be recomputed. Activations are only offloaded if they are checkpoints of recomputation.
std::vector<Kernels> kernels_of(const OpenKeys& open, const Candidate& shape);
std::vector<Saving> savings_of(const OpenKeys& open, const Kernels& kernels);

}  // namespace meshwright::sim
