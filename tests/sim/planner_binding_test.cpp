// Tests jobs in which one thing limits the step: computation, tensor groups, messages between
// stages, reductions and when they run, gathers, experts, or context groups. Other jobs have memory
// limits between the peaks of two plans. The bounds must be below every plan of the space and near
// it, and the search must find the same as simulating every plan.
#include <algorithm>
#include <vector>

#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

struct Range {
  double low, high;
  bool has(double value) const { return low <= value && value <= high; }
};

// Limits on how near the bounds must come to the simulation, over all plans.
struct Nearness {
  double step;     // simulated / least step, at most
  Range estimate;  // estimated / simulated step
  double memory;   // peak / least memory, at most
  Range likely;    // likely / peak memory
};

struct Case {
  const char* name;
  const char* machine;
  int hosts;
  json job;
  Nearness nearness;
};

json wide_model(const std::string& family, int layers, int hidden) {
  json model = {{"family", family}, {"hidden", hidden}, {"layers", layers},
                {"heads", 8},       {"vocab", 4000},    {"positions", 2048}};
  if (family == "mixtral") {
    model["experts"] = 8;
    model["experts_per_token"] = 2;
    model["expert_capacity_factor"] = 4;  // with slots, no host waits for the numbers of tokens
  }
  return model;
}

json open(std::initializer_list<const char*> keys) {
  json parallelism = json::object();
  for (const char* key : keys) parallelism[key] = "auto";
  return parallelism;
}

// Places pipeline stages inside hosts, so that gradients are reduced between hosts.
json with_stages_inside(json parallelism) {
  parallelism["placement"] = "DPT";
  return parallelism;
}

json with_network(json job, double gbps) {
  job["cluster"]["network"] = {{"nics", 1}, {"gbps_per_nic", gbps}};
  return job;
}

json job_of(const json& model, const char* machine, int hosts, int batch, int sequence,
            const json& parallelism) {
  json job = job_json(model, machine, hosts, batch);
  job["training"]["sequence_length"] = sequence;
  job["parallelism"] = parallelism;
  job["cluster"]["host_launch_us"] = 0.001;
  return job;
}

std::vector<Case> cases() {
  const char* const v100 = "p3.16xlarge";
  const char* const a100 = "p4d.24xlarge";
  const json stages = open({"pipeline", "data", "schedule", "virtual_stages"});
  return {
      {"computation",
       a100,
       1,
       job_of(wide_model("gpt", 8, 4096), a100, 1, 64, 2048, stages),
       {4.11, {0.56, 1.01}, 1.09, {0.95, 1.001}}},
      {"an embedding and a head of their own",
       a100,
       1,
       job_of(wide_model("gpt", 6, 1024), a100, 1, 64, 512, stages),
       {5, {0.55, 1.11}, 1.1, {0.93, 1.001}}},
      {"tensor groups",
       v100,
       1,
       job_of(wide_model("gpt", 4, 1024), v100, 1, 32, 512,
              open({"tensor", "data", "sequence_parallel"})),
       {1.13, {0.88, 0.98}, 1.01, {0.99, 1.001}}},
      {"tensor groups beside compute",
       v100,
       1,
       job_of(wide_model("gpt", 4, 1024), v100, 1, 32, 512,
              {{"tensor", "auto"},
               {"data", "auto"},
               {"sequence_parallel", "auto"},
               {"tensor_chunks", "auto"},
               {"overlap", {"gradients", "parameters", "tensor"}}}),
       {1.3, {0.8, 1.0}, 1.1, {0.95, 1.001}}},
      {"messages",
       v100,
       4,
       with_network(
           job_of(wide_model("gpt", 8, 1024), v100, 4, 64, 1024, with_stages_inside(stages)), 1),
       {1.05, {0.95, 0.99}, 1.08, {0.94, 1.001}}},
      // With sixteen stages on two hosts, one of fifteen messages crosses between hosts.
      {"messages between some stages",
       v100,
       2,
       with_network(job_of(wide_model("gpt", 16, 1024), v100, 2, 64, 1024,
                           {{"pipeline", 16}, {"schedule", "auto"}}),
                    1),
       {3.4, {0.3, 1}, 1.1, {0.93, 1.001}}},
      {"reductions",
       v100,
       2,
       with_network(job_of(wide_model("gpt", 8, 2048), v100, 2, 16, 128,
                           with_stages_inside(open({"pipeline", "data", "zero_stage"}))),
                    10),
       {1.9, {0.53, 0.99}, 1.13, {0.9, 1.001}}},
      {"reductions once a step or with every micro-batch",
       v100,
       2,
       with_network(job_of(wide_model("gpt", 8, 2048), v100, 2, 64, 128,
                           with_stages_inside(open({"pipeline", "data", "zero_stage",
                                                    "reduce_gradients", "reshard_after_forward"}))),
                    10),
       {1.9, {0.53, 0.99}, 1.16, {0.88, 1.001}}},
      {"gathers",
       v100,
       2,
       with_network(
           job_of(wide_model("gpt", 4, 2048), v100, 2, 64, 128, {{"data", 16}, {"zero_stage", 3}}),
           10),
       {1.04, {0.96, 0.99}, 1.04, {0.96, 0.98}}},
      {"experts",
       a100,
       1,
       job_of(wide_model("mixtral", 4, 1024), a100, 1, 32, 512,
              open({"expert", "data", "pipeline", "zero_stage"})),
       {2.1, {0.51, 1.0}, 1.35, {0.76, 1.001}}},
      {"context groups",
       v100,
       2,
       with_network(job_of(wide_model("gpt", 4, 512), v100, 2, 16, 2048,
                           open({"context", "data", "zero_stage", "placement"})),
                    10),
       {2.0, {0.71, 1.34}, 1.05, {0.98, 1.001}}},
  };
}

struct Simulated {
  double peak_bytes, step_time_s;
};

// Returns the entries that no other one beats in both values, in order of memory.
std::vector<Simulated> best_by_memory(std::vector<Simulated> all) {
  std::ranges::sort(all, [](const Simulated& a, const Simulated& b) {
    return std::pair(a.peak_bytes, a.step_time_s) < std::pair(b.peak_bytes, b.step_time_s);
  });
  std::vector<Simulated> best;
  for (const Simulated& each : all)
    if (best.empty() || each.step_time_s < best.back().step_time_s) best.push_back(each);
  return best;
}

SearchResult search_within(const Job& job, double bytes) {
  SearchOptions options;
  options.simulate_at_most = 1000;
  options.load = [bytes](const std::string& name) {
    Machine machine = load_known_machine(name);
    machine.gpu.memory_bytes = bytes;
    if (machine.framework) machine.framework->capacity_bytes = bytes;
    return machine;
  };
  return search(job, options);
}

}  // namespace

TEST_CASE("the bounds are near every plan, whatever decides", "[planner]") {
  for (const Case& each : cases()) {
    Planned planned(each.job, each.machine, each.hosts);
    for (const Candidate& candidate : planned.candidates) {
      const Prediction prediction = planned.check_bounds(candidate);
      const Bounds time = planned.bounds.time(candidate);
      const MemoryBounds memory = planned.bounds.memory(candidate);
      const auto peak = static_cast<double>(prediction.peak_memory_bytes);
      INFO(each.name << " " << planned.name(candidate));
      CAPTURE(prediction.step_time_s, time.step_time_s, time.estimate_s, peak, memory.least_bytes,
              memory.likely_bytes);
      CHECK(prediction.step_time_s <= each.nearness.step * time.step_time_s);
      CHECK(each.nearness.estimate.has(time.estimate_s / prediction.step_time_s));
      CHECK(peak <= each.nearness.memory * memory.least_bytes);
      CHECK(each.nearness.likely.has(memory.likely_bytes / peak));
    }
  }
}

TEST_CASE("under any memory limit the search finds the best plan that fits", "[planner]") {
  for (const Case& each : cases()) {
    const Planned planned(each.job, each.machine, each.hosts);
    std::vector<Simulated> all;
    for (const Candidate& candidate : planned.candidates) {
      const Prediction prediction = planned.simulate(candidate);
      all.push_back({static_cast<double>(prediction.peak_memory_bytes), prediction.step_time_s});
    }
    const std::vector<Simulated> best = best_by_memory(all);
    for (std::size_t i = 0; i < best.size(); ++i) {
      INFO(each.name << ", " << best[i].peak_bytes << " bytes");
      const SearchResult enough = search_within(planned.job, best[i].peak_bytes);
      REQUIRE(!enough.plans.empty());
      CHECK(enough.plans.front().prediction.step_time_s == best[i].step_time_s);
      CHECK(enough.proven_gap == 0);
      const SearchResult short_of = search_within(planned.job, best[i].peak_bytes - 1);
      REQUIRE(short_of.plans.empty() == (i == 0));
      if (i > 0)
        CHECK(short_of.plans.front().prediction.step_time_s == best[i - 1].step_time_s);
      else
        CHECK(short_of.closest_miss->peak_memory_bytes >= best[0].peak_bytes);
      std::int64_t accounted = short_of.candidates_simulated;
      for (const Rejection& rejection : short_of.rejected) accounted += rejection.count;
      CHECK(accounted == short_of.candidates_enumerated);
    }
  }
}

TEST_CASE("any global batch is planned; what has too many micro-batches is no candidate",
          "[planner]") {
  for (const int batch : {1, 7, 16384, 65536, 99991, 1 << 20, 10'000'000, 2'147'483'647}) {
    INFO("batch " << batch);
    json value = job_json(small_model(2, 4), "p4d.24xlarge", 1, batch);
    const SearchResult result = search(read(value), few);
    std::int64_t accounted = result.candidates_simulated, of_limit = 0;
    for (const Rejection& rejection : result.rejected) {
      accounted += rejection.count;
      if (rejection.reason == "more than 16384 micro-batches in a step") of_limit = rejection.count;
      CHECK(rejection.reason.find("global_batch") == std::string::npos);
    }
    CHECK(accounted == result.candidates_enumerated);
    CHECK((of_limit > 0) == (batch > 16384));
    // A global batch that is a large prime would be one micro-batch, which fits nowhere.
    CHECK(result.plans.empty() == (batch == 99991 || batch == 2'147'483'647));
    for (const RankedPlan& plan : result.plans) CHECK(plan.plan.micro_batches() <= 16384);
  }
}

TEST_CASE("an open micro-batch is one that the rules allow, not always one sequence", "[planner]") {
  const auto settled = [](int batch, const json& parallelism) {
    json value = job_json(small_model(2, 4), "p4d.24xlarge", 1, batch);
    value["parallelism"] = parallelism;
    const Job job = read(value);
    return settle(job, 8, machine_facts("p4d.24xlarge")).training.micro_batch;
  };
  CHECK(settled(64, {{"data", 8}}) == 1);
  CHECK(settled(1 << 20, {{"data", 8}}) == 8);  // 131,072 sequences of each in 16,384
  CHECK(settled(64, {{"tensor", 4}, {"tensor_batch", "own"}}) == 4);
  const auto open = [](json parallelism, int batch, int sequence) {
    json value = job_json(small_model(2, 4), "p4d.24xlarge", 1, batch);
    value["training"]["sequence_length"] = sequence;
    parallelism["pipeline"] = "auto";
    value["parallelism"] = std::move(parallelism);
    return search(read(value), few).plans.size();
  };
  CHECK(open({{"tensor", 4}, {"tensor_batch", "own"}}, 64, 128) > 0);
  CHECK(open({{"tensor", 2}, {"sequence_parallel", true}}, 64, 127) > 0);
  CHECK(open({{"shard_layout", "whole"}, {"zero_stage", "auto"}}, 64, 128) > 0);
}

TEST_CASE("plans that are predicted exactly alike stay in the order of the space", "[planner]") {
  json value = job_json(small_model(4, 4), "p4d.24xlarge", 1, 16);
  value["training"]["micro_batch"] = 1;
  value["parallelism"] = {
      {"pipeline", 2}, {"tensor", 2}, {"data", 2}, {"schedule", "gpipe"}, {"placement", "auto"}};
  const Planned planned(value, "p4d.24xlarge", 1);
  const SearchResult result = search(planned.job);
  std::vector<std::size_t> places;
  std::size_t equal = 0;
  for (const RankedPlan& plan : result.plans) {
    const auto found = std::ranges::find(planned.candidates, plan.plan.parallelism.placement,
                                         &Candidate::placement);
    places.push_back(static_cast<std::size_t>(found - planned.candidates.begin()));
    if (places.size() == 1) continue;
    const RankedPlan& before = result.plans[places.size() - 2];
    if (before.prediction.step_time != plan.prediction.step_time) continue;
    CHECK(places[places.size() - 2] < places.back());
    ++equal;
  }
  REQUIRE(result.plans.size() > 2);
  CHECK(equal > 0);
}
