// Tests the keys for a job's own network and switches, and the default failure rates.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "hwprofiles/failures.h"
#include "models/job/job.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json job_with(const std::string& section, const json& value) {
  json job = json::parse(R"({
    "model": "gpt2", "training": {"global_batch": 64, "micro_batch": 2, "sequence_length": 512},
    "cluster": {"machine": "p4d.24xlarge", "count": 2}})");
  job["cluster"][section] = value;
  return job;
}

Job read(const json& value) { return read_job(value, "job.json", ".", lookup_for_tests); }

}  // namespace

TEST_CASE("a network's and a fabric's numbers are read up to their limits", "[models][job]") {
  struct Limit {
    const char *section, *key;
    json last, refused;
  };
  const json network = {{"nics", 4}, {"gbps_per_nic", 100}, {"latency_us", 5}};
  const json topology = {{"leaf_ports", 32}, {"oversubscription", 2}};
  for (const Limit& limit :
       {Limit{"network", "nics", 1, 0}, Limit{"network", "gbps_per_nic", 1e-6, 0},
        Limit{"network", "latency_us", 0, -1e-6}, Limit{"topology", "leaf_ports", 1, 0},
        Limit{"topology", "leaf_ports", 100'000, 100'001},
        Limit{"topology", "oversubscription", 1, 0.999}}) {
    INFO(limit.section << " " << limit.key);
    json value = std::string(limit.section) == "network" ? network : topology;
    value[limit.key] = limit.last;
    CHECK(message_of([&] { read(job_with(limit.section, value)); }) == "");
    value[limit.key] = limit.refused;
    CHECK(message_of([&] {
            read(job_with(limit.section, value));
          }).starts_with(std::string("job.json: /cluster/") + limit.section + "/" + limit.key));
  }
}

TEST_CASE("each key of a network and of a fabric is its own field", "[models][job]") {
  const Job job = read(job_with("network", {{"nics", 3}, {"gbps_per_nic", 50}, {"latency_us", 0}}));
  REQUIRE(job.cluster.network);
  CHECK(job.cluster.network->nics == 3);
  CHECK(job.cluster.network->gbps_per_nic == 50);
  CHECK(job.cluster.network->latency_us == 0);
  const Job silent = read(job_with("network", {{"nics", 3}, {"gbps_per_nic", 50}}));
  CHECK(silent.cluster.network->latency_us < 0);  // the machine's own
  for (const bool rails : {false, true})
    for (const bool reduces : {false, true}) {
      const Job of_fabric = read(job_with("topology", {{"leaf_ports", 16},
                                                       {"oversubscription", 3},
                                                       {"rails", rails},
                                                       {"in_network_reduction", reduces}}));
      REQUIRE(of_fabric.cluster.fabric);
      CHECK(of_fabric.cluster.fabric->leaf_ports == 16);
      CHECK(of_fabric.cluster.fabric->oversubscription == 3);
      CHECK(of_fabric.cluster.fabric->rails == rails);
      CHECK(of_fabric.cluster.fabric->in_network_reduction == reduces);
    }
  const Job usual = read(job_with("topology", {{"leaf_ports", 16}}));
  CHECK(usual.cluster.fabric->oversubscription == 1);
  CHECK_FALSE(usual.cluster.fabric->rails);
  CHECK_FALSE(usual.cluster.fabric->in_network_reduction);
}

TEST_CASE("a network and a fabric come back as they were", "[models][job]") {
  const auto written = [](const json& value) {
    const Job job = read(value);
    const Plan plan = settle(job, 16, lookup_for_tests("p4d.24xlarge"));
    return to_json(job, plan, "p4d.24xlarge", 2)["cluster"];
  };
  for (const double latency : {0.0, 7.5}) {
    const json network = {{"nics", 3}, {"gbps_per_nic", 50.0}, {"latency_us", latency}};
    CHECK(written(job_with("network", network))["network"] == network);
  }
  const json silent = {{"nics", 3}, {"gbps_per_nic", 50.0}};
  CHECK(written(job_with("network", silent))["network"] == silent);
  for (const bool rails : {false, true}) {
    const json topology = {{"leaf_ports", 16},
                           {"oversubscription", 3.0},
                           {"rails", rails},
                           {"in_network_reduction", !rails}};
    CHECK(written(job_with("topology", topology))["topology"] == topology);
  }
  CHECK(written(job_with("host_launch_us", 2.5))["host_launch_us"] == 2.5);
  CHECK(written(job_with("processes_per_host", 8))["processes_per_host"] == 8);
  CHECK_FALSE(written(job_with("count", 2)).contains("processes_per_host"));
}

// In 54 days of 16,384 GPUs there were 419 unexpected interruptions: 54 by software bugs, 2 by
// software dependencies, 7 by timeouts, and the others by hosts. Another 47 were planned.
TEST_CASE("hosts fail as often as those that trained Llama 3", "[models][job]") {
  struct Cause {
    FailureCause cause;
    const char* name;
    bool loses_host;
    int times;
  };
  const double gpu_hours = 16384.0 * 54 * 24;
  const Failures usual;
  for (const Cause& each : {Cause{FailureCause::hardware, "hardware", true, 356},
                            Cause{FailureCause::software, "software", false, 56},
                            Cause{FailureCause::hang, "hang", false, 7},
                            Cause{FailureCause::preemption, "preemption", true, 0},
                            Cause{FailureCause::maintenance, "maintenance", true, 47}}) {
    INFO(each.name);
    const FailureCauseInfo& row = failure_causes()[static_cast<std::size_t>(each.cause)];
    CHECK(row.name == each.name);
    CHECK(row.loses_host == each.loses_host);
    CHECK(row.per_gpu_hour == Approx(each.times / gpu_hours));
    CHECK(usual.rate_per_host_hour(each.cause, 8) == Approx(8 * each.times / gpu_hours));
    Failures given;
    given.per_host_hour[static_cast<std::size_t>(each.cause)] = 0.25;
    CHECK(given.rate_per_host_hour(each.cause, 8) == 0.25);
  }
  // A fifth of the spot hosts is taken back within 730 hours, so four fifths are left.
  CHECK(std::exp(-spot_preemption_per_host_hour * 730) == Approx(0.8));
}

TEST_CASE("each way to recover has its time and its spare hosts", "[models][job]") {
  struct Way {
    Recovery recovery;
    const char* name;
    double seconds;
    int spares;
  };
  for (const Way& each :
       {Way{Recovery::restart, "restart", 900, 0}, Way{Recovery::in_job, "in_job", 300, 0},
        Way{Recovery::hot_spare, "hot_spare", 300, 1},
        Way{Recovery::peer_memory, "peer_memory", 120, 0}}) {
    INFO(each.name);
    Failures failures;
    failures.recovery = each.recovery;
    CHECK(recovery_names()[static_cast<std::size_t>(each.recovery)] == each.name);
    CHECK(failures.restart_time_s() == each.seconds);
    CHECK(failures.spare_hosts() == each.spares);
    failures.restart_s = 5;
    failures.spares = 3;
    CHECK(failures.restart_time_s() == 5);
    CHECK(failures.spare_hosts() == 3);
  }
}
