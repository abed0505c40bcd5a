// Simulates every partition into stages of random small jobs. The bounds of each partition and of
// all partitions together must stay at or below what is simulated.
#include <algorithm>
#include <random>

#include "tests/sanitized.h"
#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

using Random = std::mt19937_64;
using Cut = BoundMaker::Cut;

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

json random_pipeline(Random& random) {
  const char* const machine = one_of(random, {"p3.16xlarge", "p4d.24xlarge"});
  const int hosts = one_of(random, {1, 2, 4});
  const json model = {{"family", one_of(random, {"gpt", "llama"})},
                      {"hidden", one_of(random, {64, 256, 1024, 2048})},
                      {"layers", one_of(random, {3, 4, 5})},
                      {"heads", 4},
                      {"vocab", one_of(random, {500, 20'000})},
                      {"positions", 2048}};
  json job = job_json(model, machine, hosts, one_of(random, {8, 16}));
  job["training"]["sequence_length"] = one_of(random, {32, 128, 1024});
  job["training"]["recompute"] = one_of(random, {"none", "selective", "full"});
  job["training"]["compiler"] = one_of(random, {"none", "fused", "full"});
  job["cluster"]["processes_per_host"] = 4;
  job["cluster"]["host_launch_us"] = one_of(random, {0.001, 5.0});
  job["cluster"]["network"] = {{"nics", 1},
                               {"gbps_per_nic", one_of(random, {1, 5, 20, 50, 100, 400})}};
  json& parallelism = job["parallelism"] = {{"pipeline", one_of(random, {2, 4})}};
  // With few long micro-batches, the last backwards are about as long as the reductions.
  if (random() % 2 == 0) job["training"]["micro_batch"] = 4, parallelism["tensor"] = 1;
  for (const char* key : {"tensor", "data", "context", "schedule", "virtual_stages", "zero_stage",
                          "shard", "placement", "reduce_gradients", "reshard_after_forward"})
    parallelism.emplace(key, "auto");
  if (random() % 2 == 0)
    parallelism["overlap"] = one_of(random, {json::array(), json{"gradients"}, json{"parameters"},
                                             json{"gradients", "parameters", "tensor"}});
  return job;
}

// Returns every partition of `units` units into `parts` parts.
std::vector<Cut> cuts_of(std::size_t units, std::size_t parts) {
  std::vector<Cut> cuts;
  std::vector<char> begins(units - 1, 0);  // whether a part begins with the unit after
  std::fill_n(begins.begin(), parts - 1, 1);
  do {
    Cut cut = {0};
    for (std::size_t unit = 1; unit < units; ++unit)
      if (begins[unit - 1] != 0) cut.push_back(unit);
    cut.push_back(units);
    cuts.push_back(cut);
  } while (std::prev_permutation(begins.begin(), begins.end()));
  return cuts;
}

double simulated(const Planned& planned, const Candidate& candidate, const Cut& cut) {
  Plan plan = to_plan(candidate, planned.base);
  for (std::size_t part = 0; part + 1 < cut.size(); ++part)
    plan.stage_of_unit.insert(plan.stage_of_unit.end(), cut[part + 1] - cut[part],
                              static_cast<int>(part));
  return predict(compiled_for(planned.job.model, plan, planned.cluster), planned.cluster)
      .step_time_s;
}

std::size_t units_of(const Planned& planned) {
  return build_graph(planned.job.model, planned.base.training).units.size();
}

void check_cuts(Planned& planned, const Candidate& candidate) {
  const std::size_t units = units_of(planned);
  const auto parts = static_cast<std::size_t>(candidate.pipeline * candidate.virtual_stages);
  double least = std::numeric_limits<double>::infinity();
  for (const Cut& cut : cuts_of(units, parts)) {
    const double step = simulated(planned, candidate, cut);
    INFO(planned.name(candidate));
    CAPTURE(cut, step);
    CHECK(planned.bounds.time_of_cut(candidate, cut).step_time_s <= step);
    CHECK(planned.bounds.pipeline_time_of_cut(candidate, cut) <= step);
    least = std::min(least, step);
  }
  INFO(planned.name(candidate));
  CHECK(planned.bounds.time_of_any_partition(candidate).step_time_s <= least);
  CHECK(planned.bounds.can_end_within(candidate, least));
}

}  // namespace

TEST_CASE("the bounds are below every cut of random pipelines", "[planner]") {
  constexpr int jobs = sanitized ? 4 : 30, plans_of_job = 6;
  Random random(20);
  for (int drawn = 0; drawn < jobs; ++drawn) {
    const json value = random_pipeline(random);
    const std::string machine = value["cluster"]["machine"];
    Planned planned(value, machine, value["cluster"]["count"]);
    std::vector<Candidate> candidates = planned.candidates;
    std::shuffle(candidates.begin(), candidates.end(), random);
    const std::size_t units = units_of(planned);
    std::erase_if(candidates, [&](const Candidate& each) {
      return static_cast<std::size_t>(each.pipeline * each.virtual_stages) > units;
    });
    if (candidates.size() > plans_of_job) candidates.resize(plans_of_job);
    for (const Candidate& candidate : candidates) check_cuts(planned, candidate);
  }
}
