#include "tools/session/process_memory.h"

#include <sys/sysinfo.h>

#ifdef MESHWRIGHT_MIMALLOC
#include <mimalloc.h>
#else
#include <malloc.h>
#endif

#include <fstream>
#include <string>

namespace meshwright::session {

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

void forget_peak_resident_bytes() {
#ifdef MESHWRIGHT_MIMALLOC
  mi_collect(true);
#elif !defined(MESHWRIGHT_SELF_CONTAINED)  // a self-contained build has another allocator
  malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << 5;
}

double physical_memory_bytes() {
  struct sysinfo info {};
  sysinfo(&info);
  return static_cast<double>(info.totalram) * info.mem_unit;
}

}  // namespace meshwright::session
