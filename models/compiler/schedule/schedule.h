// A pipeline schedule: the order in which one stage runs the forwards and backwards of its chunks.
// One that splits backwards runs each in two tasks: what earlier stages wait for, then the weights'
// gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "models/compiler/schedule/kinds.h"
#include "models/program/stage_layout.h"

namespace meshwright {

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // virtual stages per stage
  int micro_batches = 1;
  // Upper bound on the micro-batches in flight on a stage (forwarded by one of its chunks, not yet
  // wholly backwarded by all); 0: the schedule's own.
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
// Returns how often the pipeline fills and drains in a step.
inline int once(PipelineShape /*shape*/) { return 1; }

struct ScheduleInfo {
  static constexpr int any = std::numeric_limits<int>::max();
  ScheduleKind kind = {};
  std::string_view name;
  std::string_view summary;
  std::string_view rules = {};    // of a job that asks for it, for the documentation of its key
  int least_chunks = 1;           // of a stage that is one of several
  int most_chunks = 1;            // that a job may ask for; from 2 on chunks take turns
  bool in_groups = false;         // micro-batches come in multiples of the stages
  bool splits_backwards = false;  // the gradients of weights are tasks of their own
  bool forwards_all = false;      // before the first backward, whatever bound a job asks for
  StageShape stage_shape = StageShape::loop;
  StageOrder (*order)(PipelineShape shape, int stage) = nullptr;
  // Returns the micro-batches in flight under `order`. The planner calls it, because it cannot look
  // at the orders of a million candidates.
  int (*in_flight)(PipelineShape shape, int stage) = as_many_as_stages_left;
  int (*fills)(PipelineShape shape) = once;
};

std::span<const ScheduleInfo> schedule_kinds();
const ScheduleInfo& schedule_info(ScheduleKind kind);

}  // namespace meshwright
