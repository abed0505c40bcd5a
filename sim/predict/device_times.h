// Where a stretch of a device's time goes: to what it computes, to communication that nothing
// covers, or to nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "models/core/units.h"

namespace meshwright {

// Something under way on the device, of a kind that the caller numbers.
struct DeviceUse {
  SimTime begin = 0, end = 0;
  std::size_t of = 0;
  // Communication that began when the last of its ranks was ready: the idle time before it, while
  // nothing is computed, is its own too.
  bool began_late = false;
};

struct DeviceTimes {
  std::vector<SimTime> computed;  // by kind; of what overlaps, that which began later has the rest
  // By kind: while nothing is computed, time is that of the communication under way that began
  // first.
  std::vector<SimTime> exposed;
  SimTime idle = 0;
};

// Of the time from `begin` to `end`, to which all numbers together add up.
DeviceTimes device_times(std::vector<DeviceUse> computed, std::size_t compute_kinds,
                         std::vector<DeviceUse> communicated, std::size_t communication_kinds,
                         SimTime begin, SimTime end);

}  // namespace meshwright
