// A pipeline schedule: the order in which one stage runs the forwards and backwards of its chunks.
// A schedule that splits backwards runs each backward in two tasks: first the gradients that
// earlier stages wait for, then the gradients of weights.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "models/compiler/schedule/kinds.h"
#include "models/program/stage_layout.h"

namespace meshwright::compiler {

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // virtual stages per stage
  int micro_batches = 1;
  // Upper bound on the micro-batches in flight on a stage. A micro-batch is in flight from the
  // first forward of one of the stage's chunks to the end of its backward on all of them. 0 means
  // that only the schedule limits them.
  int active_microbatches = 0;
};

enum class TaskKind : std::uint8_t { forward, backward, weights };

struct ScheduledTask {
  TaskKind kind = TaskKind::forward;
  int chunk = 0;
  int micro_batch_index = 0;
  bool operator==(const ScheduledTask&) const = default;
};
using StageOrder = std::vector<ScheduledTask>;

// Returns a lower bound of the micro-batches whose activations a stage holds at once. With several
// chunks, one micro-batch of each chunk counts as one. It is the number of stages from this one to
// the last, unless there are fewer micro-batches or active_microbatches is lower. It is the default
// of ScheduleInfo::in_flight.
int as_many_as_stages_left(PipelineShape shape, int stage);
// Returns 1, because the pipeline fills and drains once in a step. It is the default of
// ScheduleInfo::fills.
inline int once(PipelineShape /*shape*/) { return 1; }

struct ScheduleInfo {
  static constexpr int any = std::numeric_limits<int>::max();
  ScheduleKind kind = {};
  std::string_view name;
  std::string_view summary;
  // Rules for jobs with this schedule, as the documentation of the job file shows them.
  std::string_view rules = {};
  int least_chunks = 1;  // least chunks of a stage if there are several stages
  // The most chunks of a stage that a job may ask for.
  int most_chunks = 1;
  bool in_groups = false;         // the number of micro-batches must be a multiple of the stages
  bool splits_backwards = false;  // the gradients of weights are tasks of their own
  // Whether all forwards run before the first backward, so that a job cannot bound the active
  // micro-batches.
  bool forwards_all = false;
  StageShape stage_shape = StageShape::loop;
  StageOrder (*order)(PipelineShape shape, int stage) = nullptr;
  // Returns a lower bound of the micro-batches in flight under `order`, in the sense of
  // as_many_as_stages_left(). The planner's bounds call it, because they cannot look at the orders
  // of a million candidates.
  int (*in_flight)(PipelineShape shape, int stage) = as_many_as_stages_left;
  int (*fills)(PipelineShape shape) = once;
};

std::span<const ScheduleInfo> schedule_kinds();
const ScheduleInfo& schedule_info(ScheduleKind kind);

}  // namespace meshwright::compiler
