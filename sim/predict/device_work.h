// Classifies the work of the compute stream of a device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "sim/cost/cost.h"
#include "sim/predict/classified.h"

namespace meshwright::sim {

enum class DeviceWork : std::uint8_t { products, attention, other, recomputation, optimizer };
constexpr std::size_t device_work_count = 5;
std::string_view name_of(DeviceWork work);  // such as "matrix products"

// Returns the class of a compute instruction by its kernels only, even if it belongs to a
// recomputation or to the optimizer.
DeviceWork work_of_kernels(const Instruction& instruction, const StepSettings& training);

// Returns the class of any instruction of a body. Communication counts as `other`, unless it
// belongs to a recomputation or to the begin or end of a step.
DeviceWork work_of(const Instruction& instruction, const Body& body, const StepSettings& training);
using DeviceWorks = Classified<DeviceWork, work_of>;

// Returns whether an instruction of class `work` is a captured segment whose time SegmentTimes
// splits. All of a recomputed segment is recomputation.
inline bool is_split(const Instruction& instruction, DeviceWork work) {
  return instruction.attributes.segment && work != DeviceWork::recomputation;
}

// Splits the time of a captured model's segments. A segment runs kernels of several classes, so its
// time is split in proportion to what the kernels of each class are predicted to take.
class SegmentTimes {
 public:
  SegmentTimes(const Program& program, const Cluster& cluster);
  // Calls use(DeviceWork, SimTime from, SimTime to) for each class of kernels of a segment that ran
  // from `begin` to `end`. The stretches follow one another.
  template <class Use>
  void split(const Instruction& segment, SimTime begin, SimTime end, const Use& use) {
    const Shares& shares = shares_of(segment);
    const auto total = static_cast<double>(end - begin);
    SimTime from = begin;
    for (const DeviceWork work : {DeviceWork::products, DeviceWork::attention, DeviceWork::other}) {
      const auto time = static_cast<SimTime>(total * shares[static_cast<std::size_t>(work)]);
      const SimTime to = work == DeviceWork::other ? end : std::min(end, from + time);
      if (to > from) use(work, from, to);
      from = to;
    }
  }

 private:
  using Shares = std::array<double, device_work_count>;
  const Shares& shares_of(const Instruction& segment);
  const Program& program_;
  CostModel cost_;
  std::map<const Instruction*, Shares> shares_;
};

}  // namespace meshwright::sim
