// A pipeline schedule: the order in which one stage runs the forwards and backwards of its chunks.
// A schedule that splits backwards runs each in two tasks: first the gradients that earlier stages
// wait for, then the gradients of weights.
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
  // Upper bound on the micro-batches in flight on a stage: forwarded by one of its chunks and not
  // yet wholly backwarded by all. 0 means the schedule's own number.
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

// Returns the least number of micro-batches whose activations a stage holds at once. (With several
// chunks, parts that make up whole micro-batches are counted.) This is the number of stages left,
// including the stage itself, unless there are fewer micro-batches or the bound is lower.
int as_many_as_stages_left(PipelineShape shape, int stage);
// Returns 1: the pipeline fills and drains once in a step. It is the default of
// ScheduleInfo::fills.
inline int once(PipelineShape /*shape*/) { return 1; }

struct ScheduleInfo {
  static constexpr int any = std::numeric_limits<int>::max();
  ScheduleKind kind = {};
  std::string_view name;
  std::string_view summary;
  // Rules for jobs with this schedule, for the documentation of the key.
  std::string_view rules = {};
  int least_chunks = 1;  // least chunks of a stage if there are several stages
  // Most that a job may ask for; two or more chunks alternate on a stage.
  int most_chunks = 1;
  bool in_groups = false;         // the number of micro-batches must be a multiple of the stages
  bool splits_backwards = false;  // the gradients of weights are tasks of their own
  // Runs all forwards before the first backward, whatever bound a job sets.
  bool forwards_all = false;
  StageShape stage_shape = StageShape::loop;
  StageOrder (*order)(PipelineShape shape, int stage) = nullptr;
  // Returns the micro-batches in flight under `order`. The planner calls it, because it cannot look
  // at the orders of a million candidates.
  int (*in_flight)(PipelineShape shape, int stage) = as_many_as_stages_left;
  int (*fills)(PipelineShape shape) = once;
};

std::span<const ScheduleInfo> schedule_kinds();
const ScheduleInfo& schedule_info(ScheduleKind kind);

}  // namespace meshwright::compiler
