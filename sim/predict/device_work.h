// Classifies what the compute stream of a device works on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "sim/cost/cost.h"
#include "sim/predict/classified.h"

namespace meshwright::sim {

enum class DeviceWork : std::uint8_t { products, attention, other, recomputation, optimizer };
constexpr std::size_t device_work_count = 5;
std::string_view name_of(DeviceWork work);  // "matrix products"

// Returns the class of a compute instruction by its kernels only, whatever part of the step it is
// in.
DeviceWork work_of_kernels(const Instruction& instruction, const StepSettings& training);

// Returns the class of any instruction of a body.
DeviceWork work_of(const Instruction& instruction, const Body& body, const StepSettings& training);
using DeviceWorks = Classified<DeviceWork, work_of>;

// Splits the time of a captured model's segments. A segment runs kernels of several classes, so its
// time is split in proportion to what the kernels of each class are predicted to take.
class SegmentTimes {
 public:
  SegmentTimes(const Program& program, const Cluster& cluster);
  // Returns picoseconds by DeviceWork that sum to `time`, which the segment took.
  std::array<SimTime, device_work_count> of(const Instruction& segment, SimTime time);

 private:
  using Shares = std::array<double, device_work_count>;
  const Shares& shares_of(const Instruction& segment);
  const Program& program_;
  CostModel cost_;
  std::map<const Instruction*, Shares> shares_;
};

}  // namespace meshwright::sim
