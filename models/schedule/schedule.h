// A pipeline schedule: the order in which one stage runs the forwards and backwards of its chunks.
// One that splits backwards runs each in two tasks: what earlier stages wait for, then the weights'
// gradients.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "models/plan/program.h"

namespace meshwright {

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // virtual stages per stage
  int micro_batches = 1;
  // Upper bound on the micro-batches in flight on a stage (forwarded by one of its chunks, not yet
  // wholly backwarded by all); 0: the schedule's own.
  int active_microbatches = 0;
};

struct ScheduledTask {
  Body::Kind kind = Body::Kind::forward;  // forward, backward, weights
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const ScheduledTask&) const = default;
};
using StageOrder = std::vector<ScheduledTask>;

struct ScheduleInfo {
  ScheduleKind kind;
  std::string_view name;
  std::string_view summary;
  bool takes_chunks;      // more than one chunk per stage is legal
  bool splits_backwards;  // the gradients of weights are tasks of their own
  StageOrder (*order)(PipelineShape shape, int stage);
};

std::span<const ScheduleInfo> schedule_kinds();
const ScheduleInfo& schedule_info(ScheduleKind kind);

// The most micro-batches of `chunk` that are forwarded and not yet wholly backwarded at any time.
int most_in_flight(const StageOrder& order, int chunk);

}  // namespace meshwright
