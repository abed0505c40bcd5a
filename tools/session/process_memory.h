// Reports the resident memory of this process and the memory of this computer, in bytes.
#pragma once

#include <cstdint>

namespace meshwright::session {

std::int64_t peak_resident_bytes();  // VmHWM of /proc/self/status; 0: unknown
// Gives free memory back to the system and restarts peak_resident_bytes() from the current value,
// if the system allows it.
void forget_peak_resident_bytes();
double physical_memory_bytes();

}  // namespace meshwright::session
