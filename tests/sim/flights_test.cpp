#include "sim/replay/flights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Member = Flights::Member;

PortLoads load(Port port, std::int32_t millionths) {
  PortLoads loads{};
  loads[static_cast<std::size_t>(port)] = millionths;
  return loads;
}

const PortLoads free_of_ports{};
const PortLoads network = load(Port::network_out, whole_port);
const PortLoads nvlink = load(Port::nvlink_out, whole_port);
const PortLoads half_nvlink = load(Port::nvlink_out, whole_port / 2);

Member transfer(int rank, int run, const PortLoads& loads) { return {rank, run, &loads}; }
Member kernel(int rank, int run) { return {rank, run, &free_of_ports, true}; }

// Returns when each run ends.
std::map<int, SimTime> ends_of(Flights& flights) {
  std::map<int, SimTime> ends;
  for (auto members = flights.next(); !members.empty(); members = flights.next())
    for (const Member& member : members) ends[member.run] = flights.now();
  return ends;
}

}  // namespace

TEST_CASE("two transfers over one port share it, over two they do not", "[flights]") {
  Flights flights(1, 0);
  flights.add(std::array{transfer(0, 1, network)}, 0, 100);
  flights.add(std::array{transfer(0, 2, network)}, 0, 300);
  flights.add(std::array{transfer(0, 3, nvlink)}, 0, 300);
  // Both have half speed until the first one ends at 200. Then the second one has 200 left.
  CHECK(ends_of(flights) == std::map<int, SimTime>{{1, 200}, {2, 400}, {3, 300}});
}

TEST_CASE("transfers that leave a port half idle do not slow each other", "[flights]") {
  Flights flights(1, 0);
  flights.add(std::array{transfer(0, 1, half_nvlink)}, 0, 100);
  flights.add(std::array{transfer(0, 2, half_nvlink)}, 0, 100);
  CHECK(ends_of(flights) == std::map<int, SimTime>{{1, 100}, {2, 100}});
}

TEST_CASE("a transfer between two ranks goes as slowly as the busier one lets it", "[flights]") {
  Flights flights(2, 0);
  flights.add(std::array{transfer(0, 1, network), transfer(1, 2, network)}, 0, 100);
  flights.add(std::array{transfer(1, 3, network)}, 0, 50);
  CHECK(ends_of(flights) == std::map<int, SimTime>{{1, 150}, {2, 150}, {3, 100}});
}

TEST_CASE("kernels are slower while a collective uses NVLink, and it is not", "[flights]") {
  Flights flights(1, 0.25);
  flights.add(std::array{kernel(0, 1)}, 0, 100);
  flights.add(std::array{transfer(0, 2, nvlink)}, 0, 50);
  // It runs for 50 at 1 / 1.25 of the speed, and then for 60 at full speed.
  CHECK(ends_of(flights) == std::map<int, SimTime>{{1, 110}, {2, 50}});
}

TEST_CASE("kernels that share the GPU take as long at once as one after the other", "[flights]") {
  Flights flights(2, 0, Flights::Kernels::shared);
  flights.add(std::array{kernel(0, 1)}, 0, 100);
  flights.add(std::array{kernel(0, 2)}, 0, 300);
  flights.add(std::array{kernel(1, 3)}, 0, 300);
  flights.add(std::array{transfer(0, 4, network)}, 0, 250);
  CHECK(ends_of(flights) == std::map<int, SimTime>{{1, 200}, {2, 400}, {3, 300}, {4, 250}});
}

TEST_CASE("a kernel that begins later is not slowed before", "[flights]") {
  Flights flights(1, 0.25);
  flights.add(std::array{kernel(0, 1)}, 200, 100);
  flights.add(std::array{transfer(0, 2, nvlink)}, 0, 50);
  CHECK(ends_of(flights) == std::map<int, SimTime>{{1, 300}, {2, 50}});
}

namespace {

struct Drawn {
  std::vector<Member> members;
  SimTime begin = 0, lasts = 0;
};

double slow_rate(const std::vector<const Drawn*>& under_way, const Drawn& one, double slowdown) {
  double rate = 1;
  for (const Member& member : one.members) {
    std::array<double, port_count> used{};
    for (const Drawn* other : under_way)
      for (const Member& beside : other->members)
        if (beside.rank == member.rank)
          for (std::size_t port = 0; port < port_count; ++port)
            used[port] += (*beside.loads)[port] / 1e6;
    if (member.computes)
      rate = std::min(rate, 1 / (1 + slowdown * std::min(1.0, used[0])));
    else
      for (std::size_t port = 0; port < port_count; ++port)
        if ((*member.loads)[port] > 0) rate = std::min(rate, 1 / std::max(1.0, used[port]));
  }
  return rate;
}

// Returns when each flight ends. All flights begin together, and every rate is computed anew at
// every end.
std::map<int, double> slow_ends(const std::vector<Drawn>& flights, double slowdown) {
  std::map<int, double> ends;
  std::vector<double> left;
  for (const Drawn& flight : flights) left.push_back(static_cast<double>(flight.lasts));
  double now = 0;
  for (std::size_t ended = 0; ended < flights.size();) {
    std::vector<const Drawn*> under_way;
    for (std::size_t i = 0; i < flights.size(); ++i)
      if (left[i] >= 0) under_way.push_back(&flights[i]);
    std::vector<double> rates(flights.size(), 0);
    double step = 1e300;
    for (std::size_t i = 0; i < flights.size(); ++i)
      if (left[i] >= 0) {
        rates[i] = slow_rate(under_way, flights[i], slowdown);
        step = std::min(step, left[i] / rates[i]);
      }
    now += step;
    for (std::size_t i = 0; i < flights.size(); ++i) {
      if (left[i] < 0) continue;
      left[i] -= rates[i] * step;
      if (left[i] > 1e-6) continue;
      left[i] = -1;
      ++ended;
      for (const Member& member : flights[i].members) ends[member.run] = now;
    }
  }
  return ends;
}

}  // namespace

TEST_CASE("random flights end when a calculation from scratch says", "[flights]") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<PortLoads> loads(8);
  for (PortLoads& each : loads)
    for (std::int32_t& port : each) port = below(2) * below(whole_port);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + below(4);
    std::vector<Drawn> drawn(static_cast<std::size_t>(1 + below(10)));
    int run = 0;
    for (Drawn& each : drawn) {
      each.lasts = 1'000'000 + below(1'000'000'000);
      const int first = below(ranks);
      if (below(3) == 0) {
        each.members.push_back(kernel(first, run++));
        continue;
      }
      for (int rank = first; rank < ranks; ++rank)
        each.members.push_back(transfer(rank, run++, loads[static_cast<std::size_t>(below(8))]));
    }
    Flights flights(static_cast<std::size_t>(ranks), 0.3);
    for (const Drawn& each : drawn) flights.add(each.members, each.begin, each.lasts);
    const std::map<int, SimTime> ends = ends_of(flights);
    const std::map<int, double> expected = slow_ends(drawn, 0.3);
    REQUIRE(ends.size() == expected.size());
    for (const auto& [which, end] : ends)
      CHECK(std::abs(static_cast<double>(end) - expected.at(which)) <= 40);  // picoseconds
  }
}
