#include "hwprofiles/cores.h"

#include <sched.h>

#include <filesystem>
#include <thread>

#include "tests/catch.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

void write(const TestFolder& folder, const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(folder.file(path)).parent_path());
  write_content(folder.file(path), text);
}

// Returns f() on a thread that may use only the first `count` cores of the current thread.
template <typename F>
int on_cores(int count, const F& f) {
  int result = 0;
  std::thread([&] {
    cpu_set_t all, some;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&some);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < count; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &some);
    REQUIRE(sched_setaffinity(0, sizeof some, &some) == 0);
    result = f();
  }).join();
  return result;
}

}  // namespace

TEST_CASE("cores are those of the affinity mask", "[hwprofiles]") {
  const TestFolder nothing;
  const auto cores = [&] { return usable_cores(nothing.file("")); };
  CHECK(on_cores(1, cores) == 1);
  if (cores() > 1) CHECK(on_cores(2, cores) == 2);
}

// Quotas above the number of cores of this computer have no effect, so the expected numbers are
// limited to it.
TEST_CASE("a control group's quota is a limit of cores", "[hwprofiles]") {
  const TestFolder nothing;
  const int all = usable_cores(nothing.file(""));
  const auto limited = [&](int quota) { return std::min(all, quota); };
  const auto with = [](const std::vector<std::pair<std::string, std::string>>& files) {
    const TestFolder folder;
    for (const auto& [path, text] : files) write(folder, path, text);
    return usable_cores(folder.file(""));
  };
  const std::string v2 = "0::/user/job\n", groups = "sys/fs/cgroup/";
  CHECK(with({{"proc/self/cgroup", v2}, {groups + "user/job/cpu.max", "max 100000\n"}}) == all);
  CHECK(with({{"proc/self/cgroup", v2}, {groups + "user/job/cpu.max", "100000 100000\n"}}) == 1);
  CHECK(with({{"proc/self/cgroup", v2}, {groups + "user/job/cpu.max", "1000 100000\n"}}) == 1);
  CHECK(with({{"proc/self/cgroup", v2}, {groups + "user/job/cpu.max", "150000 100000\n"}}) ==
        limited(2));
  // Quotas of enclosing groups count too. So does that of the root if the group does not exist
  // there, because a container may know its group only by the host's path.
  CHECK(with({{"proc/self/cgroup", v2},
              {groups + "user/cpu.max", "100000 100000\n"},
              {groups + "user/job/cpu.max", "300000 100000\n"}}) == 1);
  CHECK(with({{"proc/self/cgroup", "0::/docker/1234\n"}, {groups + "cpu.max", "50000 50000\n"}}) ==
        1);
  const std::string v1 = "5:memory:/job\n4:cpu,cpuacct:/job\n";
  for (const char* mount : {"cpu/", "cpu,cpuacct/"}) {
    const std::string at = groups + mount + "job/";
    CHECK(with({{"proc/self/cgroup", v1},
                {at + "cpu.cfs_quota_us", "-1\n"},
                {at + "cpu.cfs_period_us", "100000\n"}}) == all);
    CHECK(with({{"proc/self/cgroup", v1},
                {at + "cpu.cfs_quota_us", "90000\n"},
                {at + "cpu.cfs_period_us", "100000\n"}}) == 1);
  }
  // In a hybrid of v1 and v2, neither `max` in v2 nor files of the controller cpuset are a quota.
  CHECK(with({{"proc/self/cgroup", "3:cpuset:/job\n0::/job\n"},
              {groups + "cpuset/job/cpu.cfs_quota_us", "100000\n"},
              {groups + "cpuset/job/cpu.cfs_period_us", "100000\n"},
              {groups + "unified/job/cpu.max", "max 100000\n"}}) == all);
}
