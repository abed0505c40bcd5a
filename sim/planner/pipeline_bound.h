// Bounds the time of a step from below, by playing the tasks of all stages of a pipeline in their
// order, each for its least time. Unlike a replay, it knows no instructions. Whatever it leaves out
// only makes tasks begin later, so its end is a lower bound of the step. It knows how the pipeline
// fills and drains, which stage is the slowest, how long messages take, and which reductions are
// left after the last backward.
#pragma once

#include <vector>

#include "models/compiler/schedule/schedule.h"
#include "sim/planner/per_parameter.h"

namespace meshwright::sim {

// One unit of a virtual stage in the backward of the last micro-batch. The reduction of the unit's
// gradients begins no earlier than its backward.
struct UnitBackward {
  double seconds = 0;
  HeldParameters parameters;
};

// Seconds that one virtual stage takes for one micro-batch, with the collectives of its tensor and
// expert groups.
struct PartTimes {
  double forward = 0, backward = 0;
  double weights = 0;          // part of `backward` that a split backward defers; 0: not split
  double before_gradient = 0;  // part of `backward` that needs no gradient from the next stage
  double after_gradient = 0;   // part of `backward` that the previous stage does not wait for
  // Seconds of the collective at the end of a forward and of a backward. It may overlap with the
  // next task until that task has a collective of its own, which begins after `until_collective_*`
  // seconds.
  double forward_last = 0, backward_last = 0;
  double until_collective_forward = 0, until_collective_backward = 0;
  HeldParameters parameters;
  std::vector<UnitBackward> units;  // the units of the virtual stage, in the order of the backward
};

struct PipelineTimes {
  StageLayout layout;
  const std::vector<StageOrder>* orders = nullptr;  // task orders of the stages
  int micro_batches = 1;
  const std::vector<PartTimes>* parts = nullptr;  // times of the virtual stages
  // Seconds of the messages from stage b to stage b + 1 (`onwards`) and back (`back`), for each b.
  std::vector<double> onwards, back;
  const PerParameter* per_parameter = nullptr;
};

double pipeline_bound(const PipelineTimes& times);

}  // namespace meshwright::sim
