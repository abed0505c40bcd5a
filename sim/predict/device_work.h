// What the compute stream of a device works on, in a word.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright {

enum class DeviceWork : std::uint8_t { products, attention, other, recomputation, optimizer };
constexpr std::size_t device_work_count = 5;
std::string_view name_of(DeviceWork work);  // "matrix products"

// Of a compute instruction by its kernels alone, whatever part of the step it is in.
DeviceWork work_of_kernels(const Instruction& instruction, const StepSettings& training);

// Of the instructions of a program, each found once.
class DeviceWorks {
 public:
  explicit DeviceWorks(const Program& program);
  DeviceWork of(const TimelineEntry& entry);

 private:
  const Program& program_;
  std::vector<std::vector<std::int8_t>> known_;  // [body][instruction]; -1: not yet
};

}  // namespace meshwright
