// Tests the start of a run: the time until rented hosts are ready, and the time to read weights.
#include "sim/planner/start_of_run.h"

#include <string>

#include "hwprofiles/load.h"
#include "models/program/graph/graph.h"
#include "sim/planner/objective.h"
#include "tests/catch.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;

namespace {

Job job_of(const std::string& training, const std::string& more = "") {
  return read_job_text(R"({"model": "gpt2", "cluster": {"machine": "p4d.24xlarge"},
      "training": {"global_batch": 64, "micro_batch": 8, "sequence_length": 128)" +
                           training + "}" + more + "}",
                       "job.json", {}, lookup_for_tests);
}

Cluster one_p4d() {
  Cluster cluster;
  cluster.machine = load_machine("p4d.24xlarge");
  cluster.processes_per_host = 8;
  return cluster;
}

StartOfRun start_of(const Job& job, const Cluster& cluster) {
  return start_of_run(job, job.plan.training, cluster);
}

}  // namespace

TEST_CASE("rented hosts take time to be there, and adapters read a model", "[planner]") {
  const Cluster cluster = one_p4d();
  CHECK(start_of(job_of(""), cluster).hosts_s == 600);
  CHECK(start_of(job_of(""), cluster).weights_s == 0);
  CHECK(start_of(job_of("", R"(, "objective": {"price": "own"})"), cluster).hosts_s == 0);
  const Job adapters =
      job_of(R"(, "lora": {"rank": 8, "alpha": 16, "target_modules": "all-linear"})");
  // The model has 124.4 M parameters, and the adapters theirs, of 2 bytes each, read at 1 GB/s.
  CHECK(start_of(adapters, cluster).weights_s == Approx(0.25).epsilon(0.05));
  Cluster slow = cluster;
  slow.failures = Failures{};
  slow.failures->replacement_s = 60;
  slow.failures->checkpoint_bytes_per_s = 1e6;
  CHECK(start_of(adapters, slow).hosts_s == 60);
  CHECK(start_of(adapters, slow).weights_s == Approx(250).epsilon(0.05));
}

TEST_CASE("a run includes its start where that is more than 5 % of the steps", "[planner]") {
  const Cluster cluster = one_p4d();
  const auto whole = [&](const Job& job) {
    return whole_job(job.objective, job.plan.training, cluster, 1, start_of(job, cluster));
  };
  const WholeJob brief = whole(job_of(R"(, "steps": 100)"));
  CHECK(brief.time_s == 700);
  CHECK(brief.start.total_s() == 600);
  REQUIRE(brief.bill);
  CHECK(brief.bill->usd == Approx(700 / 3600.0 * cluster.machine.prices.front().usd_per_hour));
  const WholeJob extended = whole(job_of(R"(, "steps": 20000)"));
  CHECK(extended.time_s == 20000);
  CHECK(extended.start.total_s() == 0);
  // An hour minus the start leaves 50 minutes of training.
  const WholeJob most =
      whole(job_of("", R"(, "objective": {"minimize": "tokens", "deadline_s": 3600})"));
  CHECK(most.time_s == 3600);
  CHECK(most.tokens == Approx(3000.0 * 64 * 128));
}
