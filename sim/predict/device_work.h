// Classifies what the compute stream of a device works on.
#pragma once

#include <cstdint>
#include <string_view>

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

}  // namespace meshwright::sim
