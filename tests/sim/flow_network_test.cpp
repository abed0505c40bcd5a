#include "sim/network/flow_network.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "tests/catch.h"
#include "tests/sim/max_min.h"

using namespace meshwright;

namespace {

constexpr SimTime second = 1'000'000'000'000;

// The same, slow and obvious: at every event all rates anew, every copy a flow of its own.
class SlowNetwork {
 public:
  explicit SlowNetwork(std::vector<double> capacity) : capacity_(std::move(capacity)) {}

  void start(int id, const std::vector<int>& route, double bytes, double now, int copies) {
    advance(now);
    flows_[id] = {route, bytes, copies, 0};
    share();
  }
  void remove(int id, double now) {
    advance(now);
    flows_.erase(id);
    share();
  }
  double rate(int id) const { return flows_.at(id).rate; }
  double end(int id) const { return now_ + flows_.at(id).left / flows_.at(id).rate; }
  double first_end() const {
    double first = std::numeric_limits<double>::infinity();
    for (const auto& [id, flow] : flows_) first = std::min(first, end(id));
    return first;
  }

 private:
  struct Flow {
    std::vector<int> route;
    double left = 0;
    int copies = 1;
    double rate = 0;
  };
  void advance(double now) {
    for (auto& [id, flow] : flows_) flow.left -= flow.rate * (now - now_);
    now_ = now;
  }
  void share() {
    std::vector<std::vector<int>> routes;
    for (const auto& [id, flow] : flows_)
      routes.insert(routes.end(), static_cast<std::size_t>(flow.copies), flow.route);
    const std::vector<double> rates = max_min_rates(capacity_, routes);
    std::size_t first = 0;
    for (auto& [id, flow] : flows_) {
      flow.rate = rates[first];
      first += static_cast<std::size_t>(flow.copies);
    }
  }
  std::vector<double> capacity_;
  std::map<int, Flow> flows_;
  double now_ = 0;
};

double seconds(SimTime time) { return static_cast<double>(time) / second; }

}  // namespace

TEST_CASE("what a flow leaves behind goes to those that it held back", "[sim][network]") {
  FlowNetwork network;
  const int link = network.add_link(10);
  const int two_links[] = {link, network.add_link(8)};
  // A and B share 10: 5 each. A has 10 bytes: it ends after 2 s.
  const int a = network.start(std::span(two_links, 1), 10, 0);
  const int b = network.start(two_links, 26, 0);
  CHECK(network.rate(a) == 5);
  CHECK(network.rate(b) == 5);
  auto next = network.next_completion();
  CHECK(next->time == 2 * second);
  CHECK(next->flow == a);
  CHECK(network.remove(a, 2 * second) == 0);
  // B has 26 - 2 * 5 = 16 bytes left and now all that its second link carries: 8. Two seconds more.
  CHECK(network.rate(b) == 8);
  next = network.next_completion();
  CHECK(next->time == 4 * second);
  CHECK(network.remove(b, 3 * second) == 8);
  CHECK_FALSE(network.next_completion());
  CHECK(network.flows() == 0);
}

TEST_CASE("copies of a flow share as so many flows", "[sim][network]") {
  FlowNetwork network;
  const int route[] = {network.add_link(12)};
  const int three = network.start(route, 6, 0, 3), one = network.start(route, 9, 0);
  // Four flows on 12: 3 each. The three end after 6 / 3 s; the one has 3 left and the link alone.
  CHECK(network.rate(three) == 3);
  CHECK(network.next_completion()->time == 2 * second);
  network.remove(three, 2 * second);
  CHECK(network.rate(one) == 12);
  CHECK(network.next_completion()->time == 2 * second + second / 4);
}

TEST_CASE("a flow without links and one without bytes end at once", "[sim][network]") {
  FlowNetwork network;
  const int route[] = {network.add_link(1)};
  const int busy = network.start(route, 1, 0);
  const int nowhere = network.start({}, 1e9, 5);
  CHECK(network.next_completion()->time == 5);
  CHECK(network.next_completion()->flow == nowhere);
  network.remove(nowhere, 5);
  const int empty = network.start(route, 0, 7);
  CHECK(network.next_completion()->time == 7);
  CHECK(network.next_completion()->flow == empty);
  network.remove(empty, 7);
  CHECK(network.next_completion()->flow == busy);
}

namespace {

using DrawRoute = std::function<std::vector<int>()>;

// Flows come and go at random, `most` at a time; after each event all rates and the next end must
// be those of the slow network. Times are whole picoseconds, hence 1e-9 on rates and ends.
void compare_with_slow(const std::vector<double>& capacity, const DrawRoute& draw_route,
                       std::size_t most, int events, std::mt19937& random) {
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(count));
  };
  FlowNetwork network;
  for (const double each : capacity) network.add_link(each);
  SlowNetwork slow(capacity);
  std::vector<int> live;
  SimTime now = 0;
  for (int event = 0; event < events; ++event) {
    const auto next = network.next_completion();
    REQUIRE(next.has_value() == !live.empty());
    if (next) REQUIRE(seconds(next->time) == Approx(slow.first_end()).epsilon(1e-9));
    const int kind = below(10);
    if (live.size() < most / 2 || (kind < 5 && live.size() < most)) {
      const std::vector<int> route = draw_route();
      const double bytes = 1 + below(1000);
      const int copies = 1 + below(3);
      if (next) now += static_cast<SimTime>(static_cast<double>(next->time - now) * 0.5);
      const int id = network.start(route, bytes, now, copies);
      slow.start(id, route, bytes, seconds(now), copies);
      live.push_back(id);
    } else {
      int id = next->flow;
      if (kind == 9)
        id = live[static_cast<std::size_t>(below(static_cast<int>(live.size())))];
      else
        now = next->time;
      network.remove(id, now);
      slow.remove(id, seconds(now));
      live.erase(std::find(live.begin(), live.end(), id));
    }
    for (const int id : live) REQUIRE(network.rate(id) == Approx(slow.rate(id)).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("at every event the rates and ends are those of all flows shared anew",
          "[sim][network]") {
  const auto seed = static_cast<std::uint32_t>(GENERATE(range(1, 21)));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<double> capacity(2 + random() % 30);
  for (double& each : capacity) each = 1 + static_cast<double>(random() % 20);
  const auto draw_route = [&] {
    std::vector<int> all(capacity.size());
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(1 + random() % std::min<std::size_t>(4, all.size()));
    return all;
  };
  compare_with_slow(capacity, draw_route, 40, 400, random);
}

TEST_CASE("so are they where equal hosts share the thin uplinks of their leaves",
          "[sim][network]") {
  // Equal capacities make equal levels, which differ by rounding; with many hosts more than a
  // handful of levels change at once.
  const auto [hosts, per_leaf, flows, events] =
      GENERATE(std::array{8, 2, 12, 600}, std::array{16, 4, 80, 600}, std::array{96, 4, 300, 900});
  std::mt19937 random(7);
  std::vector<double> capacity(static_cast<std::size_t>(2 * hosts), 10);
  capacity.resize(static_cast<std::size_t>(2 * hosts + 2 * hosts / per_leaf), 5.0 * per_leaf);
  const auto draw_route = [&, hosts = hosts, per_leaf = per_leaf] {
    const int from = static_cast<int>(random() % static_cast<std::uint32_t>(hosts));
    const int to = static_cast<int>(random() % static_cast<std::uint32_t>(hosts));
    std::vector<int> route = {2 * from, 2 * to + 1};
    if (from / per_leaf != to / per_leaf) {
      route.push_back(2 * (hosts + from / per_leaf));
      route.push_back(2 * (hosts + to / per_leaf) + 1);
    }
    return route;
  };
  compare_with_slow(capacity, draw_route, static_cast<std::size_t>(flows), events, random);
}
