// Computes initial values of parameters. They are a function of (seed, the parameter's full name,
// the element's place in the whole tensor), so that a model starts with the same values however it
// is split. Experts have the names and places of their published tensors.
#pragma once

#include <cstdint>

#include "exec/runtime/parameter_runs.h"
#include "models/program/graph/graph.h"

namespace meshwright::exec {

struct InitialOptions {
  std::uint64_t seed = 0;
  int layers = 1;  // residual outputs: deviation 0.02 / sqrt(2 layers) (GPT-2)
  PartOfCut part = {};
};

// Writes local elements [begin, begin + count) of the parameter to values[0 ... count).
void fill_initial(const Parameter& parameter, const InitialOptions& options, std::int64_t begin,
                  std::int64_t count, float* values);

}  // namespace meshwright::exec
