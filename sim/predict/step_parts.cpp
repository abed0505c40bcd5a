#include "sim/predict/step_parts.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "models/core/error.h"
#include "models/program/mesh.h"
#include "sim/predict/device_work.h"

namespace meshwright::sim {

namespace {

// Names of the communication that the compute stream waited for, in the order of GroupKind.
constexpr std::array<std::string_view, group_kind_count> exposed_causes = {
    "exposed host copies",
    "exposed tensor communication",
    "exposed messages between stages",
    "exposed all-reduce of gradients",
    "exposed all-reduce over data and tensor",
    "exposed communication inside a replica",
    "exposed sharding",
    "exposed all-reduce of shards",
    "exposed context communication",
    "exposed exchange of heads",
    "exposed ring of context groups",
    "exposed expert communication",
    "exposed all-reduce of experts",
    "exposed sharding of experts",
    "exposed all-reduce of experts' shards",
    "exposed gradient norm",
    "exposed communication of all ranks",
    "exposed all-reduce of embeddings"};

using WorkTimes = std::array<SimTime, device_work_count>;

WorkTimes works_of_stage(const Program& program, const Cluster& cluster, const Timeline& timeline) {
  const Mesh mesh = program.settings->mesh();
  DeviceWorks works(program);
  SegmentTimes segments(program, cluster);
  WorkTimes times{};
  for (const TimelineEntry& entry : timeline.entries) {
    if (mesh.coordinates(entry.rank).pipeline != program.stage) continue;
    const Body& body = program.bodies[program.tasks[entry.task].body];
    const Instruction& instruction = body.instructions[entry.instruction];
    if (instruction.stream != Stream::compute) continue;
    const auto add = [&](DeviceWork work, SimTime from, SimTime to) {
      times[static_cast<std::size_t>(work)] += to - from;
    };
    const DeviceWork work = works.of(entry);
    if (is_split(instruction, work))
      segments.split(instruction, entry.begin, entry.end, add);
    else
      add(work, entry.begin, entry.end);
  }
  return times;
}

// Scales the times so that they sum to `total`. If all ranks of the stage are equal, one rank
// stands for all in the timeline, and the times sum to `total` already.
void scale_to(SimTime total, WorkTimes& times) {
  SimTime sum = 0;
  for (const SimTime time : times) sum += time;
  if (sum == total || sum == 0) return;
  SimTime left = total;
  for (SimTime& time : times) {
    time = static_cast<SimTime>(static_cast<double>(time) * static_cast<double>(total) /
                                static_cast<double>(sum));
    left -= time;
  }
  *std::ranges::max_element(times) += left;
}

}  // namespace

std::string_view exposed_cause(GroupKind group) {
  return exposed_causes[static_cast<std::size_t>(group)];
}

StepParts step_parts(const Compiled& compiled, const Cluster& cluster, const Prediction& prediction,
                     const Timeline& timeline) {
  const auto busy = [](const StageTimes& times) {
    return times.compute_busy + times.exposed_communication + times.launch;
  };
  const auto longest = std::ranges::max_element(prediction.stages, {}, busy);
  StepParts result;
  result.stage = static_cast<int>(longest - prediction.stages.begin());
  result.step_time = prediction.step_time;
  const Program& program = compiled.stages[result.stage];
  WorkTimes computed = works_of_stage(program, cluster, timeline);
  scale_to(longest->compute_busy, computed);
  SimTime left = result.step_time;
  const auto add = [&](std::string_view cause, SimTime time) {
    result.parts.push_back({std::string(cause), time});
    left -= time;
  };
  for (std::size_t work = 0; work < device_work_count; ++work)
    add(name_of(static_cast<DeviceWork>(work)), computed[work]);
  add("kernel launches", longest->launch);
  for (std::size_t group = 0; group < longest->exposed_by.size(); ++group)
    add(exposed_causes[static_cast<std::size_t>(group)], longest->exposed_by[group]);
  add("bubble", longest->bubble);
  add("idle", left);
  return result;
}

std::vector<PartChange> changes(const StepParts& from, const StepParts& to) {
  MESHWRIGHT_CHECK(from.parts.size() == to.parts.size(), "every step has the same parts");
  std::vector<PartChange> result;
  for (std::size_t i = 0; i < from.parts.size(); ++i)
    if (from.parts[i].time != to.parts[i].time)
      result.push_back({from.parts[i].cause, from.parts[i].time, to.parts[i].time});
  std::ranges::stable_sort(result, std::greater{},
                           [](const PartChange& each) { return std::abs(each.change()); });
  return result;
}

}  // namespace meshwright::sim
