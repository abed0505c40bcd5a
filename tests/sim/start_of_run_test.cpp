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
  CHECK(start_of(job_of(R"(, "steps": 9)"), cluster).hosts_s == 600);
  CHECK(start_of(job_of(R"(, "steps": 9)"), cluster).weights_s == 0);
  CHECK(
      start_of(job_of(R"(, "steps": 9)", R"(, "objective": {"price": "own"})"), cluster).hosts_s ==
      0);
  const Job adapters =
      job_of(R"(, "steps": 9, "lora": {"rank": 8, "alpha": 16, "target_modules": "all-linear"})");
  // The model has 124.4 M parameters, and the adapters theirs, of 2 bytes each, read at 1 GB/s.
  CHECK(start_of(adapters, cluster).weights_s == Approx(0.25).epsilon(0.05));
  Cluster slow = cluster;
  slow.failures = Failures{};
  slow.failures->replacement_s = 60;
  slow.failures->checkpoint_bytes_per_s = 1e6;
  CHECK(start_of(adapters, slow).hosts_s == 60);
  CHECK(start_of(adapters, slow).weights_s == Approx(250).epsilon(0.05));
}

TEST_CASE("a run includes its start in time, dollars and tokens", "[planner]") {
  const Cluster cluster = one_p4d();
  const auto whole = [&](const Job& job) {
    return JobOnCluster(job, job.plan.training, cluster).whole(1);
  };
  for (const int steps : {100, 20000}) {
    const WholeJob run = whole(job_of(R"(, "steps": )" + std::to_string(steps)));
    CHECK(run.time_s == steps + 600);
    CHECK(run.start.total_s() == 600);
    REQUIRE(run.bill);
    CHECK(run.bill->usd ==
          Approx((steps + 600) / 3600.0 * cluster.machine.prices.front().usd_per_hour));
  }
  // An hour minus the start leaves 50 minutes of training.
  const WholeJob most =
      whole(job_of("", R"(, "objective": {"minimize": "tokens", "deadline_s": 3600})"));
  CHECK(most.time_s == 3600);
  CHECK(most.tokens == Approx(3000.0 * 64 * 128));
  // The answer of a job without a length is one step.
  CHECK(whole(job_of("")).time_s == 1);
}

TEST_CASE("a step as long as the limits allow uses them up, with the start", "[planner]") {
  const Cluster cluster = one_p4d();
  const double usd_per_s = cluster.machine.prices.front().usd_per_hour / 3600;
  const auto run_of = [&](const std::string& limit) {
    const Job job = job_of(R"(, "steps": 100)", R"(, "objective": {)" + limit + "}");
    return JobOnCluster(job, job.plan.training, cluster);
  };
  const JobOnCluster in_time = run_of(R"("deadline_s": 700)");
  CHECK(in_time.longest_step().seconds == Approx(1));
  CHECK(in_time.whole(in_time.longest_step().seconds).time_s == Approx(700));
  const JobOnCluster in_budget = run_of(R"("budget_usd": )" + std::to_string(800 * usd_per_s));
  CHECK(in_budget.longest_step().seconds == Approx(2));
  CHECK(in_budget.whole(in_budget.longest_step().seconds).bill->usd == Approx(800 * usd_per_s));
  // The start alone misses this deadline.
  CHECK(run_of(R"("deadline_s": 500)").longest_step().seconds == 0);
}

TEST_CASE("own hosts, which are there at once, beat slightly faster rented ones", "[planner]") {
  const Cluster rented = one_p4d();
  Cluster owned = rented;
  owned.machine.prices.clear();
  const auto seconds = [](const std::string& steps, const Cluster& cluster, double step_time_s) {
    const Job job = job_of(R"(, "steps": )" + steps);
    return JobOnCluster(job, job.plan.training, cluster).merit(step_time_s);
  };
  CHECK(seconds("100", owned, 2) < seconds("100", rented, 1));
  CHECK(seconds("1000", rented, 1) < seconds("1000", owned, 2));
}
