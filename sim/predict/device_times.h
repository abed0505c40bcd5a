// Splits a stretch of a device's time into compute, communication that no compute covers, and idle
// time.
#pragma once

#include <vector>

#include "models/core/units.h"

namespace meshwright::sim {

// A use of the device from `begin` to `end`. `of` is its kind, which the caller numbers.
struct DeviceUse {
  SimTime begin = 0, end = 0;
  std::size_t of = 0;
  // True for communication that is recorded as beginning only when the last of its ranks was ready.
  // If the device is idle before it, without compute or other communication, this time counts as
  // the communication's own too.
  bool began_late = false;
};

struct DeviceTimes {
  // Picoseconds by kind of compute. If uses overlap, the time of the overlap counts for the one
  // that began first.
  std::vector<SimTime> computed;
  // Picoseconds by kind of communication. Time without compute is attributed to the communication
  // in flight that began first.
  std::vector<SimTime> exposed;
  SimTime idle = 0;
};

// Splits the time from `begin` to `end`, in picoseconds. All numbers of the result sum to `end -
// begin`. Kinds are numbered from 0 to `compute_kinds` - 1 and `communication_kinds` - 1.
DeviceTimes device_times(std::vector<DeviceUse> computed, std::size_t compute_kinds,
                         std::vector<DeviceUse> communicated, std::size_t communication_kinds,
                         SimTime begin, SimTime end);

}  // namespace meshwright::sim
