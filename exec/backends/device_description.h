// Describes a device as its driver and its backend report it.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

struct DeviceDescription {
  std::string name;    // as the driver has it: "NVIDIA H100 80GB HBM3"
  int generation = 0;  // compute capability, 90 for 9.0
  int multiprocessors = 0;
  double memory_bytes = 0, l2_bytes = 0, clock_hz = 0;
  std::int64_t workspace_bytes = 0;  // that the backend takes for matrix products
  bool reaches_others = false;       // the memory of every other device of the computer
};

}  // namespace meshwright
