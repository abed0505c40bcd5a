#include "sim/predict/kernel_parts.h"

#include <algorithm>
#include <array>
#include <map>

#include "models/core/error.h"
#include "models/program/walk.h"
#include "sim/predict/device_times.h"
#include "sim/predict/device_work.h"

namespace meshwright::sim {

namespace {

// Compute and communication in a stretch of a device's time.
struct Stretch {
  SimTime begin = 0, end = 0;
  std::vector<DeviceUse> computed, communicated;
  std::array<SimTime, communication_kind_count> under_way{};

  void add(KernelKind kind, SimTime from, SimTime to, bool began_late = false) {
    from = std::max(from, begin), to = std::min(to, end);
    if (to <= from) return;
    const auto number = static_cast<std::size_t>(kind);
    if (!is_communication(kind)) {
      computed.push_back({from, to, number});
      return;
    }
    communicated.push_back({from, to, number - compute_kind_count, began_late});
    under_way[number - compute_kind_count] += to - from;
  }
};

// Returns means over `steps` steps, rounded down. The step time is the sum of these means.
KernelParts parts_of(Stretch stretch, std::int64_t steps) {
  const DeviceTimes times =
      device_times(std::move(stretch.computed), compute_kind_count, std::move(stretch.communicated),
                   communication_kind_count, stretch.begin, stretch.end);
  KernelParts result;
  result.steps = steps;
  const auto add = [&](const std::string& cause, SimTime time) {
    result.parts.parts.push_back({cause, time / steps});
    result.parts.step_time += time / steps;
  };
  for (std::size_t i = 0; i < compute_kind_count; ++i)
    add(std::string(name_of(static_cast<KernelKind>(i))), times.computed[i]);
  for (std::size_t i = 0; i < communication_kind_count; ++i) {
    const auto kind = static_cast<KernelKind>(compute_kind_count + i);
    add("exposed " + std::string(name_of(kind)), times.exposed[i]);
    if (stretch.under_way[i] > 0)
      result.communication.push_back(
          {kind, stretch.under_way[i] / steps, times.exposed[i] / steps});
  }
  add("launch gaps", times.idle);
  return result;
}

// Returns the kind of the kernels of class `work` in a captured segment.
KernelKind kind_of(DeviceWork work) {
  return work == DeviceWork::products    ? KernelKind::products
         : work == DeviceWork::attention ? KernelKind::attention
                                         : KernelKind::other;
}

bool waits_in_nccl(const Instruction& instruction) {
  return instruction.kind == InstructionKind::recv || spans_stages(instruction.group);
}

// The steps of a trace on the device, from the first one that has a kernel to the last.
struct DeviceSteps {
  SimTime begin = 0, end = 0;
  std::int64_t steps = 1, first = -1, last = -1;
};

// Returns for each of `moments` when the device had done everything launched before it, at the
// earliest the moment itself.
std::vector<SimTime> done_before(const ProfilerTrace& trace, const std::vector<SimTime>& moments) {
  std::vector<SimTime> done = moments;
  for (const ProfiledKernel& kernel : trace.kernels)
    for (std::size_t i = 0; i < moments.size(); ++i)
      if (kernel.launched < moments[i]) done[i] = std::max(done[i], kernel.end);
  return done;
}

DeviceSteps whole_trace(const ProfilerTrace& trace) {
  return {trace.kernels.front().begin, trace.end, 1, -1, -1};
}

DeviceSteps steps_of(const ProfilerTrace& trace, const std::string& path) {
  const auto has_kernel = [&](const ProfiledStep& step) {
    return std::ranges::any_of(trace.kernels, [&](const ProfiledKernel& kernel) {
      return kernel.launched >= step.begin && kernel.launched < step.end;
    });
  };
  const auto first = std::ranges::find_if(trace.steps, has_kernel);
  if (first == trace.steps.end())
    throw InputError(path + ": no kernel of a GPU was launched in any of its " +
                     std::to_string(trace.steps.size()) + " ProfilerSteps");
  auto last = trace.steps.end() - 1;
  while (!has_kernel(*last)) --last;
  const std::vector<SimTime> ends = done_before(trace, {first->begin, last->end});
  return {ends.front(), ends.back(), last - first + 1, first->number, last->number};
}

std::vector<NamedKernel> longest(const ProfilerTrace& trace, const DeviceSteps& steps) {
  std::map<std::string_view, NamedKernel> by_name;
  for (const ProfiledKernel& kernel : trace.kernels) {
    if (kernel.begin < steps.begin || kernel.begin >= steps.end) continue;
    NamedKernel& named = by_name[kernel.name];
    named.kind = kernel.kind;
    named.time += kernel.end - kernel.begin;
    ++named.runs;
  }
  std::vector<NamedKernel> kernels;
  for (auto& [name, kernel] : by_name) {
    kernel.name = name;
    kernel.time /= steps.steps;
    kernel.runs = (kernel.runs + steps.steps / 2) / steps.steps;
    kernels.push_back(kernel);
  }
  std::ranges::stable_sort(kernels, std::greater{}, &NamedKernel::time);
  return kernels;
}

}  // namespace

KernelParts predicted_kernel_parts(const Program& program, const Cluster& cluster,
                                   const Timeline& timeline, int rank, SimTime step_time) {
  Stretch stretch;
  stretch.end = step_time;
  KernelKinds kinds(program);
  SegmentTimes segments(program, cluster);
  for (const TimelineEntry& entry : timeline.entries) {
    if (entry.rank != rank) continue;
    const Instruction& instruction =
        program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
    if (instruction.attributes.segment)
      segments.split(
          instruction, entry.begin, entry.end,
          [&](DeviceWork work, SimTime from, SimTime to) { stretch.add(kind_of(work), from, to); });
    else
      stretch.add(kinds.of(entry), entry.begin, entry.end, waits_in_nccl(instruction));
  }
  KernelParts result = parts_of(std::move(stretch), 1);
  result.parts.stage = program.stage;
  return result;
}

KernelParts profiled_kernel_parts(const ProfilerTrace& trace, const std::string& path) {
  const DeviceSteps steps = trace.steps.empty() ? whole_trace(trace) : steps_of(trace, path);
  Stretch stretch;
  stretch.begin = steps.begin, stretch.end = steps.end;
  for (const ProfiledKernel& kernel : trace.kernels)
    stretch.add(kernel.kind, kernel.begin, kernel.end);
  KernelParts result = parts_of(std::move(stretch), steps.steps);
  result.first_step = steps.first, result.last_step = steps.last;
  result.kernels = longest(trace, steps);
  return result;
}

}  // namespace meshwright::sim
