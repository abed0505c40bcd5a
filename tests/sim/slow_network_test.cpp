// Tests jobs that a slow network limits, because expert groups or reductions of gradients cross
// hosts, and a job that the optimizer of experts limits. The bounds must be below every plan and
// near it, and the search must find the same as simulating every plan, which is another plan than
// on a fast network.
#include <algorithm>
#include <limits>

#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json model_of(const char* family, int ffn) {
  json model = {{"family", family}, {"hidden", 512}, {"layers", 4},     {"heads", 8},
                {"ffn", ffn},       {"vocab", 512},  {"positions", 512}};
  if (family == std::string("mixtral")) {
    model["experts"] = 16;
    model["experts_per_token"] = 2;
    model["expert_capacity_factor"] = 8;  // with slots, no host waits for the numbers of tokens
  }
  return model;
}

json job_of(const json& model, int hosts, const json& parallelism, double gbps) {
  json job = job_json(model, "p3.16xlarge", hosts, 32 * hosts);
  job["training"]["micro_batch"] = 2;
  job["parallelism"] = parallelism;
  job["cluster"]["network"] = {{"nics", 1}, {"gbps_per_nic", gbps}};
  job["cluster"]["host_launch_us"] = 0.001;
  return job;
}

// Checks the bounds and the search, and returns the fastest candidate of all.
Candidate fastest(const json& job, int hosts, double nearness) {
  Planned planned(job, "p3.16xlarge", hosts);
  double best_s = std::numeric_limits<double>::infinity();
  Candidate best;
  for (const Candidate& candidate : planned.candidates) {
    const Prediction prediction = planned.check_bounds(candidate);
    INFO(planned.name(candidate));
    const double bound_s = std::max(planned.bounds.time(candidate).step_time_s,
                                    planned.bounds.pipeline_time(candidate));
    CHECK(prediction.step_time_s <= nearness * bound_s);
    if (prediction.step_time_s < best_s) best_s = prediction.step_time_s, best = candidate;
  }
  REQUIRE(planned.candidates.size() > 1);
  SearchOptions all = few, some = few;
  all.simulate_at_most = 1000;
  some.simulate_at_most = 2;
  const SearchResult found = search(planned.job, all);
  REQUIRE(!found.plans.empty());
  CHECK(found.plans.front().prediction.step_time_s == best_s);
  CHECK(found.proven_gap == 0);
  // After few simulations, the reported gap must be at least the possible gain.
  const SearchResult gap = search(planned.job, some);
  REQUIRE(!gap.plans.empty());
  CHECK((1 - gap.proven_gap) * gap.plans.front().prediction.step_time_s <= best_s);
  return best;
}

}  // namespace

TEST_CASE("on a slow network wide experts are shared over hosts, narrow ones inside them",
          "[planner]") {
  // A stage has four ranks on each host, so expert groups of eight or more are on two or more
  // hosts.
  const auto best = [](int ffn, double gbps) {
    return fastest(job_of(model_of("mixtral", ffn), 4,
                          {{"pipeline", 2},
                           {"data", 16},
                           {"expert", "auto"},
                           {"zero_stage", "auto"},
                           {"shard", "auto"},
                           {"placement", "DPT"}},
                          gbps),
                   4, 1.45);
  };
  CHECK(best(4096, 1).expert == 16);
  CHECK(best(32, 1).expert <= 4);
  best(4096, 10'000);
}

TEST_CASE("where reductions over hosts are slow, a plan has as few of them as it can",
          "[planner]") {
  const auto best = [](const char* placement) {
    return fastest(job_of(model_of("llama", 2048), 2,
                          {{"pipeline", "auto"},
                           {"data", "auto"},
                           {"zero_stage", "auto"},
                           {"shard", "auto"},
                           {"reduce_gradients", "auto"},
                           {"placement", placement}},
                          1),
                   2, 1.3);
  };
  CHECK(best("PDT").pipeline > 1);  // replicas on one host
  CHECK(best("DPT").shard == 8);    // summed up on each host: an eighth of the bytes leaves it
}

TEST_CASE("with few tokens, ranks that share the experts are fastest", "[planner]") {
  json job = job_of(model_of("mixtral", 4096), 1,
                    {{"data", 8}, {"expert", "auto"}, {"zero_stage", 1}}, 10'000);
  job["training"]["sequence_length"] = 16;
  CHECK(fastest(job, 1, 1.15).expert == 8);
}
