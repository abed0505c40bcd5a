// Splits the time of a step by cause, in whole picoseconds that sum to the step time. Two steps can
// thus be compared: the differences of their parts sum to the difference of the step times.
#pragma once

#include <string>
#include <vector>

#include "models/program/timeline.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

struct StepPart {
  std::string cause;  // "matrix products", "exposed sharding", "bubble"
  SimTime time = 0;
};

// Parts of the step on the stage whose device is busy longest, with compute, exposed communication
// or waiting for launches. Every step has the same parts in the same order. A part that does not
// occur is 0.
struct StepParts {
  SimTime step_time = 0;
  int stage = 0;
  std::vector<StepPart> parts;
};

// Returns the parts of a step. `timeline` is the one that predict() filled in for `prediction` on
// `cluster`.
StepParts step_parts(const Compiled& compiled, const Cluster& cluster, const Prediction& prediction,
                     const Timeline& timeline);

// Returns a name such as "exposed sharding" for communication of a group that the compute stream
// waits for. `pipeline` stands for messages between stages, `none` for copies to and from the host.
std::string_view exposed_cause(GroupKind group);

// The change of a part from one step to another.
struct PartChange {
  std::string cause;
  SimTime from = 0, to = 0;
  SimTime change() const { return to - from; }
};

// Returns the changes of the parts that differ, the largest first. They sum to the difference of
// the step times.
std::vector<PartChange> changes(const StepParts& from, const StepParts& to);

}  // namespace meshwright::sim
