#include "sim/predict/timeline_parts.h"

#include <algorithm>
#include <limits>

#include "sim/predict/device_times.h"
#include "sim/predict/device_work.h"

namespace meshwright::sim {

namespace {

constexpr std::size_t messages = static_cast<std::size_t>(GroupKind::pipeline);

std::size_t group_of(const Instruction& instruction) {
  const bool message =
      instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
  return message ? messages : static_cast<std::size_t>(instruction.group);
}

}  // namespace

StepParts timeline_parts(const Program& program, const Cluster& cluster, const Timeline& timeline,
                         int rank) {
  std::vector<DeviceUse> computed, communicated;
  DeviceWorks works(program);
  SegmentTimes segments(program, cluster);
  const auto add = [&](DeviceWork work, SimTime from, SimTime to) {
    computed.push_back({from, to, static_cast<std::size_t>(work)});
  };
  SimTime begin = std::numeric_limits<SimTime>::max(), end = 0;
  for (const TimelineEntry& entry : timeline.entries) {
    if (entry.rank != rank) continue;
    const Instruction& instruction =
        program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
    if (instruction.stream != Stream::compute)
      communicated.push_back({entry.begin, entry.end, group_of(instruction)});
    else if (is_split(instruction, works.of(entry)))
      segments.split(instruction, entry.begin, entry.end, add);
    else
      add(works.of(entry), entry.begin, entry.end);
    begin = std::min(begin, entry.begin), end = std::max(end, entry.end);
  }
  StepParts result;
  result.stage = program.stage;
  if (computed.empty() && communicated.empty()) return result;
  result.step_time = end - begin;
  const DeviceTimes times = device_times(std::move(computed), device_work_count,
                                         std::move(communicated), group_kind_count, begin, end);
  for (std::size_t work = 0; work < device_work_count; ++work)
    result.parts.push_back(
        {std::string(name_of(static_cast<DeviceWork>(work))), times.computed[work]});
  for (std::size_t group = 0; group < group_kind_count; ++group)
    result.parts.push_back({group == messages
                                ? "waiting for other stages"
                                : std::string(exposed_cause(static_cast<GroupKind>(group))),
                            times.exposed[group]});
  result.parts.push_back({"idle", times.idle});
  return result;
}

}  // namespace meshwright::sim
