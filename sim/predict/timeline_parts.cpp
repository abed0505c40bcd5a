#include "sim/predict/timeline_parts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "models/core/index.h"
#include "sim/predict/device_work.h"

namespace meshwright {

namespace {

constexpr std::size_t messages = static_cast<std::size_t>(GroupKind::pipeline);

struct Use {
  SimTime begin = 0, end = 0;
  std::size_t of = 0;  // a DeviceWork, or a GroupKind
};

std::size_t group_of(const Instruction& instruction) {
  const bool message =
      instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
  return message ? messages : static_cast<std::size_t>(instruction.group);
}

// What was waited for from `begin` to `end`, by group; returns the rest. `uses` by their begin.
SimTime blame(std::span<const Use> uses, SimTime begin, SimTime end,
              std::array<SimTime, group_kind_count>& waited) {
  SimTime idle = 0;
  while (begin < end) {
    // The first that is under way now; else the next one that begins.
    const auto now = std::ranges::find_if(
        uses, [&](const Use& use) { return use.begin <= begin && use.end > begin; });
    if (now != uses.end()) {
      const SimTime until = std::min(end, now->end);
      waited[now->of] += until - begin;
      begin = until;
      continue;
    }
    const auto next = std::ranges::find_if(
        uses, [&](const Use& use) { return use.begin > begin && use.end > use.begin; });
    const SimTime until = next == uses.end() ? end : std::min(end, next->begin);
    idle += until - begin;
    begin = until;
  }
  return idle;
}

}  // namespace

StepParts timeline_parts(const Program& program, const Timeline& timeline, int rank) {
  std::vector<Use> computed, communicated;
  DeviceWorks works(program);
  for (const TimelineEntry& entry : timeline.entries) {
    if (entry.rank != rank) continue;
    const Instruction& instruction =
        program.bodies[at(program.tasks[at(entry.task)].body)].instructions[at(entry.instruction)];
    if (instruction.stream == Stream::compute)
      computed.push_back({entry.begin, entry.end, static_cast<std::size_t>(works.of(entry))});
    else
      communicated.push_back({entry.begin, entry.end, group_of(instruction)});
  }
  for (auto* uses : {&computed, &communicated}) std::ranges::stable_sort(*uses, {}, &Use::begin);

  StepParts result;
  result.stage = program.stage;
  if (computed.empty() && communicated.empty()) return result;
  SimTime begin = std::numeric_limits<SimTime>::max(), end = 0;
  for (const auto* uses : {&computed, &communicated})
    for (const Use& use : *uses) begin = std::min(begin, use.begin), end = std::max(end, use.end);
  result.step_time = end - begin;

  std::array<SimTime, device_work_count> busy{};
  std::array<SimTime, group_kind_count> waited{};
  SimTime idle = 0, free = begin;
  std::size_t first = 0;  // of `communicated` that has not ended
  const auto wait_until = [&](SimTime until) {
    if (until <= free) return;
    while (first < communicated.size() && communicated[first].end <= free) ++first;
    idle += blame(std::span(communicated).subspan(first), free, until, waited);
  };
  for (const Use& use : computed) {
    wait_until(use.begin);
    busy[use.of] += std::max(SimTime{0}, use.end - std::max(free, use.begin));
    free = std::max(free, use.end);
  }
  wait_until(end);

  for (std::size_t work = 0; work < device_work_count; ++work)
    result.parts.push_back({std::string(name_of(static_cast<DeviceWork>(work))), busy[work]});
  for (std::size_t group = 0; group < group_kind_count; ++group)
    result.parts.push_back({group == messages
                                ? "waiting for other stages"
                                : std::string(exposed_cause(static_cast<GroupKind>(group))),
                            waited[group]});
  result.parts.push_back({"idle", idle});
  return result;
}

}  // namespace meshwright
