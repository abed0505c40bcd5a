#include "tests/sim/max_min.h"

#include <cmath>

#include "tests/catch.h"

using namespace meshwright;
using Rates = std::vector<double>;

TEST_CASE("a flow held back elsewhere leaves its share of the link to the others",
          "[sim][network]") {
  // Link 0 carries A, B, C (12 GB/s). Link 1 carries A only (2 GB/s).
  //   A <= 2 (link 1), A + B + C <= 12 (link 0)   =>   A = 2, B = C = (12 - 2) / 2 = 5.
  CHECK(max_min_rates({12.0, 2.0}, {{0, 1}, {0}, {0}}) == Rates{2.0, 5.0, 5.0});
}

TEST_CASE("a flow over two links gets the smaller share of them", "[sim][network]") {
  // Link 0 (10): A, B. Link 1 (6): A, C. Equal growth: link 1 is full at 3, so A = C = 3; B = 10 -
  // 3 = 7.
  CHECK(max_min_rates({10.0, 6.0}, {{0, 1}, {0}, {1}}) == Rates{3.0, 7.0, 3.0});
}

TEST_CASE("a chain of bottlenecks is filled link by link", "[sim][network]") {
  // Link 0 (1): A. Link 1 (4): A, B, C. Link 2 (10): C, D.
  //   A = 1; B = C = (4 - 1) / 2 = 1.5; D = 10 - 1.5 = 8.5.
  CHECK(max_min_rates({1.0, 4.0, 10.0}, {{0, 1}, {1}, {1, 2}, {2}}) == Rates{1.0, 1.5, 1.5, 8.5});
}

TEST_CASE("flows that share nothing run at full speed, and no link means no limit",
          "[sim][network]") {
  CHECK(max_min_rates({3.0, 5.0}, {{0}, {1}}) == Rates{3.0, 5.0});
  CHECK(std::isinf(max_min_rates({3.0}, {{}})[0]));
  CHECK(max_min_rates({}, {}).empty());
}

TEST_CASE("no link carries more than its capacity and every flow meets a full one",
          "[sim][network]") {
  std::uint32_t state = 12345;
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % below);
  };
  std::vector<double> capacity;
  for (int link = 0; link < 40; ++link) capacity.push_back(1.0 + random(20));
  std::vector<std::vector<int>> flows;
  for (int flow = 0; flow < 300; ++flow) {
    const int a = random(20), b = 20 + random(20);
    flows.push_back({a, b});
  }
  const Rates rates = max_min_rates(capacity, flows);
  Rates load(capacity.size());
  for (std::size_t flow = 0; flow < flows.size(); ++flow)
    for (const int link : flows[flow]) load[static_cast<std::size_t>(link)] += rates[flow];
  for (std::size_t link = 0; link < load.size(); ++link)
    CHECK(load[link] <= capacity[link] * 1.000001);
  for (std::size_t flow = 0; flow < flows.size(); ++flow) {
    bool full = false;
    for (const int link : flows[flow]) {
      const auto index = static_cast<std::size_t>(link);
      full = full || load[index] >= capacity[index] * 0.999999;
    }
    CHECK(full);
  }
}
