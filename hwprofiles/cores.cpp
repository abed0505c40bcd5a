#include "hwprofiles/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

namespace meshwright::hwprofiles {

namespace {

namespace fs = std::filesystem;

int cores_of_affinity() {
  for (int most = 1024; most <= 1 << 20; most *= 2) {  // the kernel's mask may be longer
    cpu_set_t* set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const bool too_short = !known && errno == EINVAL;
    const int cores = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return cores;
    if (!too_short) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Returns the number at the beginning of a file, or nothing if it cannot be read.
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Returns the cores that one control group's quota allows, or nothing without a quota. Version 2
// has them in one file ("200000 100000", or "max 100000" for no limit), and version 1 in two files.
std::optional<double> quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

std::optional<double> quota_v1(const fs::path& group) {
  const std::optional<double> quota = number_in(group / "cpu.cfs_quota_us"),
                              period = number_in(group / "cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) return *quota / *period;  // -1: no quota
  return std::nullopt;
}

using Quota = std::optional<double> (*)(const fs::path& group);

// Returns the smallest quota, in cores, of the group `own` and of the groups around it, up to the
// root of the hierarchy that is mounted at `mount`. It is infinite if there is none. A group that
// does not exist below `mount` has no quota: a container may see its own group as the root,
// although its name is the host's path.
double least_quota(const fs::path& mount, const std::string& own, Quota quota) {
  double least = std::numeric_limits<double>::infinity();
  for (fs::path group = fs::path(own).relative_path();; group = group.parent_path()) {
    least = std::min(least, quota(mount / group).value_or(least));
    if (group.empty()) return least;
  }
}

// Returns whether a comma-separated list contains the word `cpu`.
bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

double cores_of_quota(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  double least = std::numeric_limits<double>::infinity();
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // v2: "0::/path", v1: "4:cpu,cpuacct:/path"
    std::istringstream words(line);
    std::string number, controllers, path;
    std::getline(words, number, ':');
    std::getline(words, controllers, ':');
    std::getline(words, path);
    if (controllers.empty()) {
      for (const char* mount : {"", "unified"})
        least = std::min(least, least_quota(mounts / mount, path, quota_v2));
    } else if (has_cpu(controllers)) {
      for (const std::string& mount : {std::string("cpu"), controllers})
        least = std::min(least, least_quota(mounts / mount, path, quota_v1));
    }
  }
  return least;
}

}  // namespace

int usable_cores(const std::string& root) {
  const double cores = std::min<double>(cores_of_affinity(), std::ceil(cores_of_quota(root)));
  return std::max(1, static_cast<int>(cores));
}

}  // namespace meshwright::hwprofiles
