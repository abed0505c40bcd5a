// Resident memory of this process, and memory of this computer.
#pragma once

#include <cstdint>

namespace meshwright {

std::int64_t peak_resident_bytes();  // VmHWM of /proc/self/status
// Gives free memory back; from here on the peak counts anew, where the system allows it.
void forget_peak_resident_bytes();
double physical_memory_bytes();

}  // namespace meshwright
