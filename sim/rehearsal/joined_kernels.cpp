#include "sim/rehearsal/joined_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <tuple>

#include "sim/rehearsal/recorded_profile.h"

namespace meshwright::sim {

namespace {

struct Run {
  std::string name;
  SimTime time = 0;
};
using Runs = std::map<KernelKind, std::vector<Run>>;  // of each kind, in the order of launches

// Returns the runs of a replayed step. It begins where the device begins it, while the host may be
// at another event. Each event is in it once, perhaps in two pieces, whose times are added.
Runs runs_of(const Recording& recording, const std::vector<RecordedSpan>& spans) {
  std::vector<SimTime> times(recording.events.size() + 1);
  for (const RecordedSpan& span : spans)
    if (span.lane == RecordedSpan::Lane::device)
      times[static_cast<std::size_t>(span.event)] += span.end - span.begin;
  Runs runs;
  for (std::size_t i = 0; i < recording.events.size(); ++i) {
    const RecordedEvent& event = recording.events[i];
    if (!runs_on_device(event.what)) continue;
    const KernelKind kind = profiled_kind(recording, event);
    const bool by_operation = event.op >= 0 && kind != KernelKind::products;
    runs[kind].push_back({by_operation ? recording.operations[static_cast<std::size_t>(event.op)]
                                       : profiled_name(recording, event),
                          times[i]});
  }
  return runs;
}

// Returns the runs that were launched in a profiled step, in the order of their launches.
Runs runs_of(const ProfilerTrace& profile, const ProfiledStep& step) {
  std::vector<const ProfiledKernel*> launched;
  for (const ProfiledKernel& kernel : profile.kernels)
    if (kernel.launched >= step.begin && kernel.launched < step.end) launched.push_back(&kernel);
  std::ranges::stable_sort(launched, {}, &ProfiledKernel::launched);
  Runs runs;
  for (const ProfiledKernel* kernel : launched)
    runs[kernel->kind].push_back({kernel->name, kernel->end - kernel->begin});
  return runs;
}

bool same_counts(const Runs& a, const Runs& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.size() == other.second.size();
  });
}

// Returns the mean over the first step of the profile that has kernels and those later steps that
// have as many of each kind.
Runs mean_runs(const ProfilerTrace& profile) {
  std::vector<ProfiledStep> steps = profile.steps;
  if (steps.empty()) steps.push_back({0, 0, profile.end + 1});
  Runs sum;
  SimTime count = 0;
  for (const ProfiledStep& step : steps) {
    Runs runs = runs_of(profile, step);
    if (runs.empty() || (count > 0 && !same_counts(sum, runs))) continue;
    ++count;
    for (auto& [kind, list] : runs) {
      sum[kind].resize(list.size());
      for (std::size_t i = 0; i < list.size(); ++i) sum[kind][i].time += list[i].time;
    }
  }
  for (auto& [kind, list] : sum)
    for (Run& run : list) run.time /= count;
  return sum;
}

SimTime time_of(const std::vector<Run>& runs) {
  SimTime sum = 0;
  for (const Run& run : runs) sum += run.time;
  return sum;
}

}  // namespace

JoinedKernels joined_kernels(const Recording& recording, const std::vector<RecordedSpan>& spans,
                             const ProfilerTrace& profile) {
  Runs predicted = runs_of(recording, spans), measured = mean_runs(profile);
  for (const auto& [kind, runs] : measured) predicted.try_emplace(kind);
  JoinedKernels result;
  std::map<std::pair<KernelKind, std::string>, JoinedKernel> kernels;
  for (const auto& [kind, runs] : predicted) {
    const std::vector<Run>& others = measured[kind];
    result.kinds.push_back({kind, static_cast<std::int64_t>(runs.size()),
                            static_cast<std::int64_t>(others.size()), time_of(runs),
                            time_of(others)});
    if (runs.size() != others.size()) continue;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      JoinedKernel& joined = kernels[{kind, runs[i].name}];
      ++joined.runs;
      joined.predicted += runs[i].time;
      joined.measured += others[i].time;
    }
  }
  for (auto& [key, joined] : kernels) {
    std::tie(joined.kind, joined.name) = key;
    result.kernels.push_back(joined);
  }
  std::ranges::stable_sort(result.kernels, std::greater{}, [](const JoinedKernel& joined) {
    return std::abs(joined.predicted - joined.measured);
  });
  return result;
}

}  // namespace meshwright::sim
