// Resident memory of this process.
#pragma once

#include <cstdint>

namespace meshwright {

std::int64_t peak_resident_bytes();  // VmHWM of /proc/self/status

}  // namespace meshwright
