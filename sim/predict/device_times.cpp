#include "sim/predict/device_times.h"

#include <algorithm>
#include <span>

namespace meshwright::sim {

namespace {

// Attributes the time from `begin` to `end`, in which nothing is computed, to communication or to
// idle time. `uses` are sorted by their begin.
void blame(std::span<const DeviceUse> uses, SimTime begin, SimTime end, DeviceTimes& times) {
  while (begin < end) {
    // Finds the first use that is in flight at `begin`, or else the next one that begins.
    const DeviceUse *now = nullptr, *next = nullptr;
    for (const DeviceUse& use : uses) {
      if (use.begin <= begin && use.end > begin) now = &use;
      if (use.begin > begin && use.end > use.begin) next = &use;
      if (now != nullptr || next != nullptr) break;
    }
    if (now != nullptr) {
      const SimTime until = std::min(end, now->end);
      times.exposed[now->of] += until - begin;
      begin = until;
      continue;
    }
    const bool comes = next != nullptr && next->begin < end;
    const SimTime until = comes ? next->begin : end;
    (comes && next->began_late ? times.exposed[next->of] : times.idle) += until - begin;
    begin = until;
  }
}

}  // namespace

DeviceTimes device_times(std::vector<DeviceUse> computed, std::size_t compute_kinds,
                         std::vector<DeviceUse> communicated, std::size_t communication_kinds,
                         SimTime begin, SimTime end) {
  for (auto* uses : {&computed, &communicated})
    std::ranges::stable_sort(*uses, {}, &DeviceUse::begin);
  DeviceTimes times{std::vector<SimTime>(compute_kinds), std::vector<SimTime>(communication_kinds),
                    0};
  SimTime free = begin;
  std::size_t first = 0;  // index of the first use of `communicated` that may not have ended
  const auto wait_until = [&](SimTime until) {
    if (until <= free) return;
    while (first < communicated.size() && communicated[first].end <= free) ++first;
    blame(std::span(communicated).subspan(first), free, until, times);
  };
  for (const DeviceUse& use : computed) {
    const SimTime until = std::min(use.end, end);
    wait_until(std::min(use.begin, end));
    times.computed[use.of] += std::max(SimTime{0}, until - std::max(free, use.begin));
    free = std::max(free, until);
  }
  wait_until(end);
  return times;
}

}  // namespace meshwright::sim
