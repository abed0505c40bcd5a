// Describes a device as its driver and the CUDA backend report it.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::exec {

struct DeviceDescription {
  std::string name;    // the driver's name: "NVIDIA H100 80GB HBM3"
  int generation = 0;  // compute capability times 10, 90 for 9.0
  int multiprocessors = 0;
  double memory_bytes = 0, l2_bytes = 0, clock_hz = 0;
  std::int64_t workspace_bytes = 0;  // scratch memory of the backend's matmuls
  bool reaches_others = false;       // can access every other device's memory
};

}  // namespace meshwright::exec
