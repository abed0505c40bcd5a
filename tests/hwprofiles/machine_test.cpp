#include "hwprofiles/machine.h"

#include "hwprofiles/load.h"
#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("an efficiency curve is linear in log x and constant beyond its ends", "[hwprofiles]") {
  const EfficiencyCurve curve{{{1e3, 0.2}, {1e5, 0.6}}};
  CHECK(curve.at(1) == 0.2);
  CHECK(curve.at(1e9) == 0.6);
  CHECK(curve.at(1e4) == Approx(0.4));  // half way in log x: (0.2 + 0.6) / 2
  CHECK(EfficiencyCurve{{{1, 0.83}}}.at(1e12) == 0.83);
  CHECK(EfficiencyCurve{}.at(5) == 1.0);
}

TEST_CASE("a cluster costs its hosts together, and what has no price costs nothing known",
          "[hwprofiles]") {
  const Cluster aws{load_machine("p4d.24xlarge"), 4, 8, {}, {}};
  CHECK(usd_per_hour(aws, {}).value() == Approx(4 * 21.957642));
  CHECK(usd_per_hour(aws, {PriceKind::spot, ""}).value() == Approx(4 * 8 * 2.083));
  const Cluster own{load_machine("dgx-a100-80gb"), 4, 8, {}, {}};
  CHECK_FALSE(usd_per_hour(own, {}));
  const Cluster no_spot{load_machine("g5.48xlarge"), 1, 8, {}, {}};
  CHECK(usd_per_hour(no_spot, {}));
  CHECK_FALSE(usd_per_hour(no_spot, {PriceKind::spot, ""}));
}

TEST_CASE("a job's network stands in for the machine's, key by key", "[hwprofiles]") {
  Cluster cluster{load_machine("dgx-a100-80gb"), 8, 8, NetworkOverride{4, {}, 3.0}, 65.0};
  CHECK(cluster.ranks() == 64);
  CHECK(cluster.network().nics == 4);
  CHECK(cluster.network().gbit_per_s_each == 200);
  CHECK(cluster.network_latency().step_latency_s == Approx(3e-6));
  CHECK(cluster.host_launch().value == Approx(65e-6));
  cluster.host_launch_us.reset();
  CHECK(cluster.host_launch().value == Approx(cluster.machine.host.host_launch_us * 1e-6));
}

TEST_CASE("threads that share a kernel reach what was measured of as many", "[hwprofiles]") {
  Machine machine;
  machine.gpus = 64;
  machine.gpu.kind = DeviceKind::cpu;
  machine.gpu.sm_count = 8;
  machine.gpu.peak_flop_per_s[0] = 10e9;
  machine.gpu.memory_bandwidth_bytes_per_s = 24e9;
  machine.gpu.gemm.points = {{1e4, 0.4}, {1e8, 0.8}};
  machine.gpu.memory_bound.points = {{1e5, 1.0}};
  machine.gpu.attention.points = {{1e6, 0.5}};
  const auto rate_of = [&](int ranks, double flops) {
    const Gpu device = Cluster{machine, 1, ranks, {}, {}}.device();
    return device.peak(Precision::fp32).value * device.gemm.at(flops);
  };
  CHECK(rate_of(4, 1e4) == Approx(2 * 10e9 * 0.4));  // no scaling is known
  machine.gpu.thread_scaling = {{2, {{{1e4, 0.5}, {1e6, 1.0}}}, {{{1e4, 0.6}}}, {{{1e6, 0.8}}}},
                                {8, {{{1e4, 0.125}, {1e6, 0.5}}}, {{{1e4, 0.2}}}, {{{1e6, 0.4}}}}};
  CHECK(rate_of(8, 1e4) == Approx(10e9 * 0.4));      // a rank's one thread loses nothing
  CHECK(rate_of(4, 1e4) == Approx(10e9 * 0.4));      // two threads are no faster than one
  CHECK(rate_of(4, 1e6) == Approx(2 * 10e9 * 0.6));  // between the points of the one curve
  CHECK(rate_of(4, 1e8) == Approx(2 * 10e9 * 0.8));
  CHECK(rate_of(1, 1e4) == Approx(10e9 * 0.4));  // eight threads are no faster than one
  CHECK(rate_of(1, 1e8) == Approx(8 * 10e9 * 0.8 * 0.5));
  CHECK(rate_of(2, 1e8) == Approx(4 * 10e9 * 0.8 * 0.75));  // log 4 is half way from log 2 to log 8
  const Gpu four = Cluster{machine, 1, 2, {}, {}}.device();
  CHECK(four.memory_bound.at(1e5) == Approx(0.4));
  CHECK(four.attention.at(1e6) == Approx(0.5 * 0.6));
}

TEST_CASE("ranks of a CPU computer share its cores and memory", "[hwprofiles]") {
  Machine machine;
  machine.gpus = 64;
  machine.gpu.kind = DeviceKind::cpu;
  machine.gpu.sm_count = 6;  // cores
  machine.gpu.peak_flop_per_s[0] = 10e9;
  machine.gpu.memory_bytes = 12e9;
  machine.gpu.memory_bandwidth_bytes_per_s = 24e9;
  Cluster cluster{machine, 1, 4, {}, {}};
  CHECK(cluster.device().peak(Precision::fp32).value == 10e9);  // floor(6 / 4) = 1 thread each
  CHECK(cluster.device().memory_bytes == 3e9);
  CHECK(cluster.device().memory_bandwidth_bytes_per_s == 6e9);
  cluster.processes_per_host = 2;
  CHECK(cluster.device().peak(Precision::fp32).value == 30e9);  // 3 threads each
  cluster.processes_per_host = 12;
  CHECK(cluster.device().peak(Precision::fp32).value == 5e9);  // two ranks take turns on a core
}
