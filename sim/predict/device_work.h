// Classifies what the compute stream of a device works on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

enum class DeviceWork : std::uint8_t { products, attention, other, recomputation, optimizer };
constexpr std::size_t device_work_count = 5;
std::string_view name_of(DeviceWork work);  // "matrix products"

// Returns the class of a compute instruction by its kernels only, whatever part of the step it is
// in.
DeviceWork work_of_kernels(const Instruction& instruction, const StepSettings& training);

// Classifies the instructions of a program, each of them once.
class DeviceWorks {
 public:
  explicit DeviceWorks(const Program& program);
  DeviceWork of(const TimelineEntry& entry);

 private:
  const Program& program_;
  std::vector<std::vector<std::int8_t>> known_;  // [body][instruction]; -1: not yet
};

}  // namespace meshwright::sim
