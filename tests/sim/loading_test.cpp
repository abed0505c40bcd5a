// Compares the times of reading and decoding samples with counts by hand.
#include "sim/predict/loading.h"

#include "hwprofiles/load.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

Plan plan_of(int data, int tensor, int global_batch) {
  Plan plan;
  plan.parallelism.data = data;
  plan.parallelism.tensor = tensor;
  plan.training.global_batch = global_batch;
  return plan;
}

Cluster hosts_of_eight(int hosts) {
  Cluster cluster;
  cluster.machine = load_machine("p4d.24xlarge");
  cluster.hosts = hosts;
  cluster.processes_per_host = 8;
  return cluster;
}

}  // namespace

TEST_CASE("each replica decodes its samples in its workers, and a host reads for its replicas",
          "[loading]") {
  const DataLoading loading{
      .bytes_per_sample = 100e3, .decode_s = 0.01, .workers = 4, .storage_bytes_per_s = 1e9};
  // Each of 16 replicas decodes 64 samples in 0.01 s each, in 4 workers. A host reads 8 x 64
  // samples of 100 kB.
  const LoadingTime time = loading_time(loading, plan_of(16, 1, 1024), hosts_of_eight(2));
  CHECK(time.decode_s == Approx(0.16));
  CHECK(time.read_s == Approx(0.0512));
  CHECK(time.step_s() == time.decode_s);
  CHECK(time.is_bottleneck(0.1));
  CHECK(!time.is_bottleneck(0.2));
  CHECK(time.workers_needed(0.1) == 7);
  CHECK(time.workers_needed(0.16) == 4);
}

TEST_CASE("a replica over several hosts is read on each of them", "[loading]") {
  const DataLoading loading{.bytes_per_sample = 1e6, .storage_bytes_per_s = 1e8};
  // Two replicas of 16 ranks are on four hosts, so each host reads the samples of one replica.
  const LoadingTime time = loading_time(loading, plan_of(2, 16, 8), hosts_of_eight(4));
  CHECK(time.read_s == Approx(4 * 0.01));
  CHECK(time.decode_s == 0);
  CHECK(time.workers == 1);
  // Two replicas of 4 ranks are on one host, which reads the samples of both.
  CHECK(loading_time(loading, plan_of(2, 4, 8), hosts_of_eight(1)).read_s == Approx(8 * 0.01));
}
