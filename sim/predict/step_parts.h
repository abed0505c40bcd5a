// Where the time of a step goes, cause by cause, in whole picoseconds that sum to the step time: so
// two steps can be compared, and the differences of their parts sum to the difference.
#pragma once

#include <string>
#include <vector>

#include "models/program/timeline.h"
#include "sim/predict/predict.h"

namespace meshwright {

struct StepPart {
  std::string cause;  // "matrix products", "exposed sharding", "bubble"
  SimTime time = 0;
};

// Of the stage whose device works and communicates longest, which the others wait for. Every step
// has the same parts in the same order; what does not occur is 0.
struct StepParts {
  SimTime step_time = 0;
  int stage = 0;
  std::vector<StepPart> parts;
};

// `timeline` is that of the prediction.
StepParts step_parts(const Compiled& compiled, const Prediction& prediction,
                     const Timeline& timeline);

// "exposed sharding"; of messages between stages `pipeline`, of copies to and from the host `none`.
std::string_view exposed_cause(GroupKind group);

// From one step to another.
struct PartChange {
  std::string cause;
  SimTime from = 0, to = 0;
  SimTime change() const { return to - from; }
};

// What explains the difference: the largest change first, unchanged parts left out. The changes sum
// to the difference of the step times.
std::vector<PartChange> changes(const StepParts& from, const StepParts& to);

}  // namespace meshwright
