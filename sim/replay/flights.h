// Keeps the runs in flight and their speeds. Communication shares the ports of its ranks, and
// kernels are slower while a collective moves bytes over NVLink.
//
// A communication at full speed keeps a share of each port busy. Its actual speed is 1 / (the
// largest sum of such shares at a port that any of its ranks uses), and at most full speed. No
// speed depends on which run came first. A collective takes a part of the GPU's multiprocessors and
// memory bandwidth in proportion to the bytes that it sends over NVLink: during that time, kernels
// take 1 + slowdown * (share of NVLink in use) times as long. If kernels share the GPU, n of them
// at once each take n times as long, because each alone would fill it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/core/units.h"
#include "sim/engine/event_queue.h"

namespace meshwright::sim {

enum class Port : std::uint8_t {
  nvlink_out,
  nvlink_in,
  network_out,
  network_in,
  host_out,
  host_in
};
constexpr std::size_t port_count = 6;

// Loads in millionths of the port's bandwidth. They are integers, because sums of integers do not
// depend on their order.
using PortLoads = std::array<std::int32_t, port_count>;
constexpr std::int32_t whole_port = 1'000'000;

class Flights {
 public:
  struct Member {
    int rank = 0, run = 0;
    // Loads that the member puts on ports; they must outlive the flight.
    const PortLoads* loads = nullptr;
    bool computes = false;
    double rate = 1;  // the speed that the ports, or the GPU, of this member allow
  };

  enum class Kernels : std::uint8_t { independent, shared };

  Flights(std::size_t ranks, double slowdown, Kernels kernels = Kernels::independent)
      : slowdown_(slowdown), kernels_(kernels), ranks_(ranks) {}

  // Adds one run of all members, which takes `lasts` at full speed, from `begin` on. `begin` must
  // not be in the past.
  void add(std::span<const Member> members, SimTime begin, SimTime lasts);

  // Removes the run that ends next and advances the time to its end. Returns its members, or none
  // if nothing is in flight. The result is valid until the next add().
  std::span<const Member> next();

  SimTime now() const { return ends_.now(); }

 private:
  struct Flight {
    std::vector<Member> members;
    SimTime left = 0;   // time that is left at full speed
    SimTime since = 0;  // the begin of the run, or the time at which `left` was computed
    double rate = 0;    // speed of the run; 0 if it is not known yet
    std::int32_t version = 0;
  };
  struct Place {
    int flight = 0, member = 0;
  };

  struct RankState {
    std::vector<Place> under_way;
    // Sums of the loads of all members in flight, by port.
    std::array<std::int64_t, port_count> used{};
    int computing = 0;  // number of kernels in flight
    bool changed = false;
  };

  Flight& flight(int id) { return flights_[id]; }
  RankState& rank(int id) { return ranks_[id]; }
  void use_ports(const Member& member, int sign);
  double rate_of(const Member& member);
  std::span<const Member> take_out(int id);
  void settle();
  void set_rate(int id);

  double slowdown_;
  Kernels kernels_;
  EventQueue ends_;  // the event's kind is the version of the flight, and `a` is the flight
  std::vector<Flight> flights_;
  std::vector<int> free_;
  int ended_ = -1;
  std::vector<RankState> ranks_;
  std::vector<int> changed_;  // ranks whose ports or GPU are used more or less than before
};

}  // namespace meshwright::sim
