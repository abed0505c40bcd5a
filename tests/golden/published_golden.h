// Golden values of a parameter that is published with others as one.
#pragma once

#include <stdexcept>

#include "models/program/graph/graph.h"
#include "tests/golden/golden.h"

namespace meshwright::tests {

inline std::string published_name(const Parameter& p) { return p.part ? p.part->whole : p.name; }

inline std::vector<std::int64_t> sizes_of(const Shape& shape) {
  return {shape.dims.begin(), shape.dims.begin() + shape.rank};
}

// `kind`: "weight/" or "gradient/". Throws where the published tensor has another shape.
inline GoldenTensor golden_of(const Golden& golden, const std::string& kind, const Parameter& p) {
  const GoldenTensor& found = golden.tensor(kind + published_name(p));
  const Shape whole = p.part ? shape_of_whole(*p.part, p.global_shape) : p.global_shape;
  if (found.shape != sizes_of(whole))
    throw std::runtime_error(golden.folder + ": " + p.name + " has another shape");
  if (!p.part) return found;
  GoldenTensor mine{sizes_of(p.global_shape), {}};
  for (const ElementRun& run : runs_of(*p.part, p.global_shape)) {
    for (std::int64_t i = 0; i < run.count; ++i)
      mine.values.push_back(found.values[static_cast<std::size_t>(run.of_whole + i * run.step)]);
  }
  return mine;
}

}  // namespace meshwright::tests
