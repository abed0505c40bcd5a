// Maps the elements of a parameter that one rank holds to the whole, published tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/optimizer/random_rounding.h"
#include "models/program/graph/graph.h"
#include "models/program/mesh.h"

namespace meshwright::exec {

// `count` elements that are contiguous both in the rank's tensor and in the whole one.
struct ParameterRun {
  std::int64_t local = 0;   // first element in this rank's tensor
  std::int64_t global = 0;  // in the tensor of global_shape; -1: padding, which is always 0
  std::int64_t count = 0;
};

// The part of a parameter that a rank holds: the index of its part among those of the tensor group,
// and for experts also among those of the expert group.
struct PartOfCut {
  int index = 0, count = 1;
  int expert = 0, experts = 1;  // index and number of parts of the experts
};
PartOfCut part_of(const Parameter& parameter, const Mesh& mesh, const Coordinates& rank);

// Calls `visit` for the runs of local elements [begin, begin + count), in order. The first and the
// last run may be parts of runs. Stores no list of runs, however many they are.
void visit_runs(const Parameter& parameter, PartOfCut part, std::int64_t begin, std::int64_t count,
                const std::function<void(const ParameterRun&)>& visit);

// Returns the runs of a part in local order. Together they are the rank's tensor.
std::vector<ParameterRun> runs_of(const Parameter& parameter, PartOfCut part);

// Returns the same mapping in the form that kernels use, for every element that is not padding.
WholePlaces places_of(const Parameter& parameter, PartOfCut part);

}  // namespace meshwright::exec
