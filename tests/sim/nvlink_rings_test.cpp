#include "sim/collectives/nvlink_rings.h"

#include <algorithm>
#include <map>

#include "hwprofiles/load.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

LinkMatrix first_gpus(int gpus) {
  const LinkMatrix all = load_machine("dgx-1v-16gb").nvlink.links_between;
  LinkMatrix links;
  for (int a = 0; a < gpus; ++a)
    links.emplace_back(all[static_cast<std::size_t>(a)].begin(),
                       all[static_cast<std::size_t>(a)].begin() + gpus);
  return links;
}

}  // namespace

TEST_CASE("the first GPUs of a cube mesh make as many rings as NCCL finds", "[sim][collectives]") {
  // Published all-reduce bus bandwidths of 2 to 8 GPUs are 22.6, 45, 85, 37, 46, 87 and 135 GB/s. A
  // link carries 22.6 GB/s, so there are 1, 2, 4, no, 2, 4 and 6 rings.
  const std::map<int, std::size_t> rings = {{2, 1}, {3, 2}, {4, 4}, {5, 0}, {6, 2}, {7, 4}, {8, 6}};
  for (const auto& [gpus, expected] : rings) {
    INFO(gpus);
    CHECK(nvlink_rings(first_gpus(gpus)).size() == expected);
  }
}

TEST_CASE("rings visit every GPU once and share no link", "[sim][collectives]") {
  for (const int gpus : {3, 4, 6, 7, 8}) {
    LinkMatrix left = first_gpus(gpus);  // per direction
    for (const auto& ring : nvlink_rings(left)) {
      auto sorted = ring;
      std::sort(sorted.begin(), sorted.end());
      for (int gpu = 0; gpu < gpus; ++gpu) CHECK(sorted[static_cast<std::size_t>(gpu)] == gpu);
      for (std::size_t i = 0; i < ring.size(); ++i)
        CHECK(--left[static_cast<std::size_t>(ring[i])]
                    [static_cast<std::size_t>(ring[(i + 1) % ring.size()])] >= 0);
    }
  }
}

TEST_CASE("five GPUs make no ring but a line", "[sim][collectives]") {
  const LinkMatrix links = first_gpus(5);
  const auto line = nvlink_line(links);
  REQUIRE(line.size() == 5);
  for (std::size_t i = 0; i + 1 < line.size(); ++i)
    CHECK(links[static_cast<std::size_t>(line[i])][static_cast<std::size_t>(line[i + 1])] > 0);
}
