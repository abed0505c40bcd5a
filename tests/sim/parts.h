// Helpers that find parts of a step by their names, and add them up.
#pragma once

#include <numeric>
#include <string>

#include "sim/predict/step_parts.h"
#include "tests/catch.h"

namespace meshwright::tests {

inline SimTime sum_of(const StepParts& parts) {
  return std::accumulate(parts.parts.begin(), parts.parts.end(), SimTime{0},
                         [](SimTime sum, const StepPart& part) { return sum + part.time; });
}

inline SimTime part(const StepParts& parts, const std::string& cause) {
  for (const StepPart& each : parts.parts)
    if (each.cause == cause) return each.time;
  FAIL("no part " << cause);
  return 0;
}

}  // namespace meshwright::tests
