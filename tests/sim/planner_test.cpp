#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <set>

#include "models/compiler/schedule/schedule.h"
#include "sim/planner/cluster_search.h"
#include "sim/planner/objective.h"
#include "sim/planner/pareto.h"
#include "sim/planner/scale.h"
#include "sim/predict/goodput.h"
#include "tests/catch.h"
#include "tests/sim/compiled.h"
#include "tests/sim/planner_jobs.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

std::string text_of(const RankedPlan& plan) {
  return plan.machine + " " + std::to_string(plan.count) + " " + to_json(plan.plan).dump() + " " +
         std::to_string(plan.prediction.step_time_s);
}

std::int64_t rejected(const SearchResult& result, const std::string& beginning) {
  std::int64_t count = 0;
  for (const Rejection& rejection : result.rejected)
    if (rejection.reason.starts_with(beginning)) count += rejection.count;
  return count;
}

}  // namespace

TEST_CASE("the space of two ranks has the combinations that one counts by hand") {
  json value = job_json(small_model(2, 2), "p3.8xlarge", 1, 4);
  value["cluster"]["processes_per_host"] = 2;
  const Job job = read(value);
  const MachineFacts facts = machine_facts("p3.8xlarge");
  const Space space = enumerate(job, base_plan(job, facts), 2);
  const std::vector<Candidate> candidates = space.candidates();
  // With data 2 there are micro-batches of 1 or 2 of 2 sequences, and zero_stage 0 to 3: 8 plans.
  // Under zero_stage 3 parameters may be kept gathered: 2 more. With two micro-batches gradients
  // may then be reduced together, with parameters kept or not: 2 more. With tensor 2 there are
  // micro-batches of 1, 2 or 4, sequence_parallel or not: 6. With pipeline 2 of 2 layers there are
  // micro-batches of 1, 2 or 4, in 1f1b, zero_bubble or gpipe: 9. With 2 virtual stages (the
  // embedding, a layer or the head alone) there are interleaved and interleaved_zero_bubble, for an
  // even number of micro-batches, 4 or 2: 4, and zero_bubble_v: 3. Context 2 is not tried, because
  // chunks of 128 / 4 tokens would be too short. One axis has one order of placement, and nothing
  // is recomputed or offloaded.
  CHECK(candidates.size() == 12 + 6 + 9 + 4 + 3);
  CHECK(space.enumerated == 36);
  CHECK(space.legal() == 34);
  const std::map<std::string, std::int64_t> rejected{
      {"interleaved needs micro-batches in multiples of pipeline", 1},
      {"interleaved_zero_bubble needs micro-batches in multiples of pipeline", 1}};
  CHECK(with_ranges(space.rejected) == rejected);
}

TEST_CASE("virtual stages whose backwards are split are tried where zero_bubble idles") {
  const auto schedules = [](int batch) {
    json value = job_json(small_model(6, 4), "p3.8xlarge", 1, batch);
    value["cluster"]["processes_per_host"] = 2;
    value["training"]["micro_batch"] = 1;
    value["parallelism"] = {{"pipeline", 2}, {"virtual_stages", "auto"}, {"schedule", "auto"}};
    const Job job = read(value);
    std::set<ScheduleKind> found;
    for (const Candidate& each :
         enumerate(job, base_plan(job, machine_facts("p3.8xlarge")), 2).candidates())
      found.insert(each.schedule);
    return found;
  };
  // With two stages and m micro-batches, 1 of 3 m + 1 tasks is idle. This is above 5 % for up to 6
  // micro-batches.
  CHECK(schedules(6).size() == schedule_kinds().size() - 1);  // but dualpipe_v
  std::set<ScheduleKind> few;
  for (const ScheduleInfo& info : schedule_kinds())
    if (!info.splits_backwards || info.most_chunks == 1) few.insert(info.kind);
  CHECK(schedules(8) == few);
}

TEST_CASE("every candidate of the space is legal and no two are equal") {
  const Job job = read(job_json(small_model(8, 4), "p3.16xlarge", 1, 16));
  const MachineFacts facts = machine_facts("p3.16xlarge");
  const Plan base = base_plan(job, facts);
  const Space space = enumerate(job, base, 8);
  const std::vector<Candidate> candidates = space.candidates();
  std::set<std::string> seen;
  bool interleaved = false;
  for (const Candidate& candidate : candidates) {
    const Plan plan = to_plan(candidate, base);
    REQUIRE_NOTHROW(verify(plan, job.model.sizes()));
    REQUIRE(plan.degrees().ranks() == 8);
    REQUIRE(plan.parallelism.tensor <= 4);
    REQUIRE(seen.insert(to_json(plan).dump()).second);
    interleaved = interleaved || candidate.virtual_stages > 1;
  }
  CHECK(interleaved);
  // The one illegal plan has tensor 8 with pipeline 1 and data 1.
  CHECK(with_ranges(space.rejected).at("tensor does not divide heads, hidden and ffn") == 1);
  std::int64_t counted = static_cast<std::int64_t>(candidates.size());
  for (const auto& [reason, count] : space.rejected) counted += count;
  CHECK(counted == space.enumerated);
}

TEST_CASE("chunks are tried that give the embedding and the head one of their own") {
  json value = job_json(small_model(6, 4), "p3.16xlarge", 1, 16);
  value["parallelism"] = {{"pipeline", "auto"}, {"virtual_stages", "auto"}, {"schedule", "auto"}};
  const Job job = read(value);
  const Plan base = base_plan(job, machine_facts("p3.16xlarge"));
  std::set<std::pair<int, int>> cuts;
  for (const Candidate& candidate : enumerate(job, base, 8).candidates())
    cuts.emplace(candidate.pipeline, candidate.virtual_stages);
  // The 6 layers go on 1 or 2 stages, in 1 or 3 chunks each. The 8 units go on 2, 4 or 8 stages, in
  // up to 4 chunks each.
  const std::set<std::pair<int, int>> wanted = {{1, 1}, {2, 1}, {2, 2}, {2, 3},
                                                {2, 4}, {4, 1}, {4, 2}, {8, 1}};
  CHECK(cuts == wanted);
}

TEST_CASE("what the job fixes stays in every plan") {
  json value = job_json(small_model(4, 4), "p3.16xlarge", 1, 16);
  value["parallelism"] = {{"pipeline", "auto"}, {"tensor", 2}, {"zero_stage", 1}};
  value["training"]["micro_batch"] = 2;
  value["training"]["recompute"] = "full";
  const SearchResult result = search(read(value));
  REQUIRE(!result.plans.empty());
  for (const RankedPlan& ranked : result.plans) {
    CHECK(ranked.plan.parallelism.tensor == 2);
    CHECK(ranked.plan.parallelism.zero_stage == 1);
    CHECK(ranked.plan.parallelism.schedule == ScheduleKind::one_f_one_b);
    CHECK_FALSE(ranked.plan.parallelism.sequence_parallel);
    CHECK(ranked.plan.training.micro_batch == 2);
    CHECK(ranked.plan.training.recompute == Recompute::full);
  }
  // Only pipeline 1, 2 and 4 are left.
  CHECK(result.candidates_enumerated == 3);
}

TEST_CASE("a plan is found that fits because the optimizer's states wait on the host") {
  json value = job_json("gpt2-xl", "p3.2xlarge", 1, 8);
  value["training"]["sequence_length"] = 1024;
  value["training"]["precision"] = "fp16";
  value["parallelism"] = {{"offload", "none"}};
  CHECK(search(read(value)).plans.empty());
  value["parallelism"]["offload"] = "optimizer";
  const SearchResult found = search(read(value));
  REQUIRE(!found.plans.empty());
  CHECK(found.plans.front().plan.parallelism.offload == Offload::optimizer);
}

TEST_CASE("the compiler level is searched together with the micro-batch") {
  json value = job_json("gpt2", "p3.2xlarge", 1, 64);
  value["training"]["sequence_length"] = 512;
  value["training"]["attention"] = "unfused";
  value["training"]["compiler"] = "auto";
  const Job job = read(value);
  const Plan base = base_plan(job, machine_facts("p3.2xlarge"));
  const Space space = enumerate(job, base, 1);
  const std::vector<Candidate> candidates = space.candidates();
  std::set<CompilerLevel> levels;
  for (const Candidate& candidate : candidates) levels.insert(candidate.compiler);
  CHECK(levels.size() == 3);
  value["training"]["compiler"] = "none";
  const SearchResult eager = search(read(value), few), best = search(job, few);
  REQUIRE(!eager.plans.empty());
  REQUIRE(!best.plans.empty());
  CHECK(best.plans.front().plan.training.compiler == CompilerLevel::full);
  CHECK(best.plans.front().prediction.step_time_s < eager.plans.front().prediction.step_time_s);
}

TEST_CASE("plans fit, obey the rules, are in order, and come out the same again") {
  json value = job_json("gpt2-xl", "p3.16xlarge", json::array({1, 2}), 32);
  value["training"]["sequence_length"] = 1024;
  const Job job = read(value);
  const SearchResult first = search(job, few), second = search(job, few);
  REQUIRE(first.plans.size() >= 2);
  REQUIRE(first.plans.size() == second.plans.size());
  std::set<int> counts;
  double last = 0;
  for (std::size_t i = 0; i < first.plans.size(); ++i) {
    const RankedPlan& ranked = first.plans[i];
    CHECK(text_of(ranked) == text_of(second.plans[i]));
    CHECK(ranked.prediction.fits);
    CHECK_NOTHROW(verify(ranked.plan, job.model.sizes()));
    CHECK(ranked.plan.degrees().ranks() == 8 * ranked.count);
    CHECK(ranked.prediction.step_time_s >= last);
    last = ranked.prediction.step_time_s;
    counts.insert(ranked.count);
  }
  CHECK(counts == std::set<int>{1, 2});
  CHECK_FALSE(first.closest_miss);
  std::int64_t accounted = first.candidates_simulated;
  for (const Rejection& rejection : first.rejected) accounted += rejection.count;
  CHECK(accounted == first.candidates_enumerated);
}

TEST_CASE("a search says how far it is, cluster by cluster, and finds the same") {
  json value = job_json("gpt2-xl", "p3.16xlarge", json::array({1, 2}), 32);
  value["training"]["sequence_length"] = 1024;
  const Job job = read(value);
  std::map<int, std::vector<ClusterProgress>> told;
  SearchOptions watched = few;
  watched.watch = [&](const ClusterProgress& each) { told[each.count].push_back(each); };
  const SearchResult result = search(job, watched), unwatched = search(job, few);
  REQUIRE(told.size() == 2);
  std::int64_t enumerated = 0;
  for (const auto& [count, all] : told) {
    CAPTURE(count);
    CHECK(all.front().simulated == 0);
    CHECK(all.front().bounded == 0);
    CHECK(all.back().bounded == 1);
    CHECK(all.back().simulated > 0);
    REQUIRE(all.back().best_step_time_s);
    enumerated += all.back().enumerated;
  }
  CHECK(enumerated == result.candidates_enumerated);
  CHECK(std::min(*told[1].back().best_step_time_s, *told[2].back().best_step_time_s) ==
        result.plans.front().prediction.step_time_s);
  CHECK(text_of(result.plans.front()) == text_of(unwatched.plans.front()));
}

TEST_CASE("of equally good plans those of the machine that is named first come first") {
  SearchOptions options = few;
  options.load = [](const std::string&) { return load_known_machine("p3.16xlarge"); };
  for (const char* first : {"p3.16xlarge", "p3dn.24xlarge"}) {
    const char* second = std::string_view(first) == "p3.16xlarge" ? "p3dn.24xlarge" : "p3.16xlarge";
    json value = job_json("gpt2", "p3.16xlarge", 1, 32);
    value["cluster"]["machine"] = json::array({first, second});
    const std::vector<RankedPlan> plans = search(read(value), options).plans;
    REQUIRE(plans.size() >= 4);
    CHECK(plans[0].machine == first);
    int ties = 0;
    for (std::size_t i = 1; i < plans.size(); ++i) {
      const bool tie = plans[i - 1].prediction.step_time_s == plans[i].prediction.step_time_s;
      ties += tie;
      CHECK_FALSE((tie && plans[i - 1].machine == second && plans[i].machine == first));
    }
    CHECK(ties > 0);
  }
}

TEST_CASE("when nothing fits, the closest miss is told") {
  json value = job_json("llama-2-7b", "p3.2xlarge", 1, 4);
  value["training"]["sequence_length"] = 4096;
  const SearchResult result = search(read(value), few);
  CHECK(result.plans.empty());
  REQUIRE(result.closest_miss);
  // There are 6.7e9 parameters of 2 + 4 + 12 bytes, and no ranks to shard them over: more than 113
  // GiB, where a device has 16.
  CHECK(result.closest_miss->peak_memory_bytes > 113.0 * (1 << 30));
  CHECK(result.closest_miss->memory_limit_bytes < 17.2e9);
  CHECK(rejected(result, "does not fit in memory (closest: 1") == result.candidates_enumerated);
}

TEST_CASE("dollars choose another cluster than time does") {
  json value = job_json("gpt2-medium", "p4d.24xlarge", json::array({1, 4}), 32);
  value["training"]["sequence_length"] = 512;
  const SearchResult fast = search(read(value), few);
  value["objective"] = {{"minimize", "usd"}};
  const SearchResult cheap = search(read(value), few);
  REQUIRE(!fast.plans.empty());
  REQUIRE(!cheap.plans.empty());
  CHECK(fast.plans.front().prediction.step_time_s <= cheap.plans.front().prediction.step_time_s);
  // Four hosts cost four times as much and are less than four times as fast.
  CHECK(cheap.plans.front().count == 1);
  for (const RankedPlan& plan : fast.plans)
    CHECK(*cheap.plans.front().prediction.usd_per_million_tokens <=
          *plan.prediction.usd_per_million_tokens);
}

TEST_CASE("a deadline turns away what is too slow, `gpus` takes the fewest that keep it") {
  json value = job_json("gpt2-medium", "p4d.24xlarge", json::array({1, 2}), 512);
  value["training"]["sequence_length"] = 1024;
  double best[3] = {};
  for (const RankedPlan& plan : search(read(value), few).plans) {
    double& time = best[plan.count];
    if (time == 0) time = plan.prediction.step_time_s;
  }
  REQUIRE(best[2] < best[1]);
  const double tokens_per_step = 512 * 1024;
  value["objective"] = {{"minimize", "gpus"},
                        {"price", "own"},  // own hosts need no time to start
                        {"tokens", 100 * tokens_per_step},
                        {"deadline_s", 100 * best[1] * 1.01}};
  CHECK(search(read(value), few).plans.front().count == 1);
  value["objective"]["deadline_s"] = 100 * (best[1] + best[2]) / 2;
  const SearchResult hurried = search(read(value), few);
  REQUIRE(!hurried.plans.empty());
  CHECK(hurried.plans.front().count == 2);
  CHECK(rejected(hurried, "misses the deadline") > 0);
  value["objective"]["deadline_s"] = best[2];  // a hundredth of what it takes
  const SearchResult hopeless = search(read(value), few);
  CHECK(hopeless.plans.empty());
  CHECK_FALSE(hopeless.closest_miss);
}

TEST_CASE("what failures cost counts against a deadline") {
  json value = job_json("gpt2-medium", "p4d.24xlarge", json::array({1, 2}), 512);
  value["training"]["sequence_length"] = 1024;
  const SearchResult healthy = search(read(value), few);
  double best = 0;
  for (const RankedPlan& plan : healthy.plans)
    if (plan.count == 1 && best == 0) best = plan.prediction.step_time_s;
  REQUIRE(best > 0);
  value["objective"] = {{"minimize", "gpus"},
                        {"price", "own"},  // own hosts need no time to start
                        {"tokens", 100.0 * 512 * 1024},
                        {"deadline_s", 100 * best * 1.02}};
  CHECK(search(read(value), few).plans.front().count == 1);
  // With a failure each hour and ten minutes to recover, training takes a sixth longer.
  value["failures"] = {{"hardware_per_host_hour", 1}, {"restart_s", 600}, {"replacement_s", 0}};
  const SearchResult failing = search(read(value), few);
  REQUIRE(!failing.plans.empty());
  CHECK(failing.plans.front().count == 2);
  CHECK(failing.plans.front().prediction.goodput->share < 1);
}

// Plans on clusters with different failure rates are compared by useful time. So the bound of plans
// that were not simulated is divided by the goodput of their cluster too.
TEST_CASE("what was not simulated loses to failures what every plan of its cluster does") {
  json value = job_json(small_model(8, 4), "p4d.24xlarge", 1, 64);
  value["parallelism"] = {{"pipeline", "auto"}, {"data", "auto"}, {"schedule", "auto"}};
  const auto searched = [](const Job& job) {
    auto result = std::make_unique<ClusterSearch>(
        job, "p4d.24xlarge", make_cluster(job.cluster, "p4d.24xlarge", 1), few);
    result->run(1, 1000);
    REQUIRE(result->best_left());
    return result;
  };
  const Job healthy = read(value);
  value["failures"] = {{"hardware_per_host_hour", 1}, {"restart_s", 600}, {"replacement_s", 0}};
  const Job failing = read(value);
  const auto before = searched(healthy), after = searched(failing);
  const double left_s = before->best_left()->first;
  REQUIRE(left_s < before->plans().front().prediction.step_time_s);
  CHECK(highest_goodput(before->cluster()) == 1);
  const double highest = highest_goodput(after->cluster());
  CHECK(highest == Approx(std::exp(-1.0 / 6)).epsilon(1e-4));  // ten minutes in every hour
  CHECK(after->best_left()->first == Approx(left_s / highest));
  const Prediction& found = after->plans().front().prediction;
  CHECK(found.goodput->share < highest);
  CHECK(found.goodput->share > 0.95 * highest);
}

TEST_CASE("as many tokens as a budget and a deadline allow") {
  json value = job_json("gpt2-medium", "p4d.24xlarge", json::array({1, 4}), 32);
  value["training"]["sequence_length"] = 512;
  value["objective"] = {{"minimize", "tokens"}, {"budget_usd", 1000}};
  const Job thrifty = read(value);
  const SearchResult cheap = search(thrifty, few);
  REQUIRE(!cheap.plans.empty());
  const auto of = [](const Job& job, const RankedPlan& plan) {
    return JobOnCluster(job, plan.plan.training, plan.cluster).whole(plan.prediction.step_time_s);
  };
  CHECK(cheap.plans.front().count == 1);  // four hosts cost more a token
  CHECK(of(thrifty, cheap.plans.front()).bill->usd == Approx(1000));
  for (const RankedPlan& plan : cheap.plans)
    CHECK(of(thrifty, plan).tokens <= of(thrifty, cheap.plans.front()).tokens);
  // In one hour, one host spends less than the budget, so four hosts train on more tokens.
  value["objective"]["deadline_s"] = 3600;
  const Job hurried = read(value);
  const RankedPlan best = search(hurried, few).plans.front();
  CHECK(best.count == 4);
  CHECK(of(hurried, best).time_s == Approx(3600));
  CHECK(of(hurried, best).bill->usd < 1000);
}

TEST_CASE("the Pareto plans are those that no other beats in time and cost") {
  const double times[] = {1.0, 2.0, 3.0, 3.0}, costs[] = {9.0, 4.0, 5.0, 3.0};
  std::vector<RankedPlan> plans(4);
  for (std::size_t i = 0; i < 4; ++i) {
    plans[i].prediction.step_time_s = times[i];
    plans[i].prediction.usd_per_million_tokens = costs[i];
  }
  mark_pareto(plans);
  CHECK(plans[0].pareto);        // the fastest
  CHECK(plans[1].pareto);        // cheaper
  CHECK_FALSE(plans[2].pareto);  // slower and dearer than the second
  CHECK(plans[3].pareto);        // the cheapest
}

TEST_CASE("scale plans each count anew and compares with the first") {
  json value = job_json("gpt2-medium", "p4d.24xlarge", 4, 64);
  value["training"]["sequence_length"] = 512;
  value["parallelism"] = {{"tensor", 1}, {"data", 32}, {"zero_stage", 1}};
  const ScaleResult result = scale(read(value));
  REQUIRE(result.points.size() == 3);
  CHECK(result.gaps.empty());
  for (std::size_t i = 0; i < 3; ++i) {
    const ScalePoint& point = result.points[i];
    CHECK(point.count == 1 << i);
    CHECK(point.gpus == 8 << i);
    CHECK(point.plan.plan.parallelism.data == 8 << i);
    CHECK(point.efficiency ==
          Approx(point.tokens_per_s / point.gpus / (result.points[0].tokens_per_s / 8)));
  }
  CHECK(result.points[0].efficiency == 1);
}

TEST_CASE("with every key open, the keys take all their values") {
  json value = job_json(small_model(8, 4), "p4d.24xlarge", 2, 32);
  value["model"]["positions"] = 1024;
  value["training"]["sequence_length"] = 1024;
  value["training"]["recompute"] = "auto";
  value["training"]["recompute_fraction"] = "auto";
  value["training"]["compiler"] = "auto";
  const Job job = read(value);
  const Plan base = base_plan(job, machine_facts("p4d.24xlarge"));
  const Space space = enumerate(job, base, 16);
  std::set<Offload> offloads;
  std::set<std::string_view> placements;
  std::set<ScheduleKind> schedules;
  std::set<Recompute> recomputations;
  std::set<double> fractions;
  std::set<int> contexts, shards;
  std::int64_t legal = 0;
  for (const Candidate& candidate : space.candidates()) {
    ++legal;
    offloads.insert(candidate.offload);
    placements.insert(candidate.placement);
    schedules.insert(candidate.schedule);
    recomputations.insert(candidate.recompute);
    fractions.insert(candidate.recompute_fraction);
    contexts.insert(candidate.context);
    shards.insert(candidate.shard);
  }
  CHECK(offloads.size() == 3);
  CHECK(placements.size() == 6);
  CHECK(schedules.size() == schedule_kinds().size() - 1);  // but dualpipe_v
  CHECK(recomputations.size() == 3);
  CHECK(fractions == std::set<double>{0.25, 0.5, 0.75, 1});
  CHECK(contexts == std::set<int>{1, 2, 4});  // chunks of 1024 / (2 * 4) = 128 tokens
  CHECK(shards == std::set<int>{1, 2, 4, 8});
  CHECK(space.legal() == legal);
}

namespace {

// Returns a job with some thousand plans, which the test simulates all.
json small_space() {
  json value = job_json(small_model(4, 4), "p3.16xlarge", 1, 16);
  value["model"]["positions"] = 1024;
  value["training"]["sequence_length"] = 512;
  value["parallelism"] = {{"pipeline", "auto"}, {"tensor", "auto"},    {"data", "auto"},
                          {"shard", "auto"},    {"schedule", "auto"},  {"zero_stage", "auto"},
                          {"context", "auto"},  {"placement", "auto"}, {"virtual_stages", "auto"}};
  return value;
}

}  // namespace

TEST_CASE("the ten best plans are those of an exhaustive search") {
  const Job job = read(small_space());
  const Cluster cluster = make_cluster(job.cluster, "p3.16xlarge", 1);
  const Plan base = base_plan(job, machine_facts("p3.16xlarge"));
  const Space space = enumerate(job, base, cluster.ranks());
  std::vector<double> all;
  for (const Candidate& candidate : space.candidates()) {
    const Prediction prediction =
        predict(compiled_for(job.model, to_plan(candidate, base), cluster), cluster);
    if (prediction.fits) all.push_back(prediction.step_time_s);
  }
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() > 500);
  SearchOptions patient;
  patient.simulate_at_most = static_cast<int>(all.size());
  const SearchResult found = search(job, patient);
  CHECK(found.proven_gap == 0);
  CHECK(found.candidates_simulated < space.legal());
  REQUIRE(found.plans.size() >= 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(found.plans[i].prediction.step_time_s == all[i]);
  // After only a few simulations, plans that were not simulated may be better by no more than the
  // reported gap.
  const SearchResult hasty = search(job, few);
  REQUIRE(!hasty.plans.empty());
  CHECK(all[0] >= hasty.plans.front().prediction.step_time_s * (1 - hasty.proven_gap));
}

TEST_CASE("a CPU computer is planned in fp32, with every way of sharding") {
  const MachineFacts unknown = machine_facts("local");
  CHECK(unknown.is_cpu);
  json value = job_json(small_model(4, 4), "local", 1, 16);
  value["training"].erase("precision");
  value["cluster"]["processes_per_host"] = 4;
  const Job job = read(value);
  const Plan base = base_plan(job, unknown);
  CHECK(base.training.precision == Precision::fp32);
  std::set<int> zero_stages;
  for (const Candidate& candidate : enumerate(job, base, 4).candidates())
    zero_stages.insert(candidate.zero_stage);
  CHECK(zero_stages == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("a margin of memory is left free, and the closest miss tells what may be used") {
  const Job job = read(job_json(small_model(8, 4), "p3.16xlarge", 1, 32));
  const double memory = load_known_machine("p3.16xlarge").gpu.memory_bytes;
  SearchOptions options = few;
  const SearchResult all = search(job, options);
  const auto peak = static_cast<double>(all.plans.front().prediction.peak_memory_bytes);
  options.memory_margin = 1 - 0.99 * peak / memory;  // the best plan does not fit any more
  const SearchResult within = search(job, options);
  for (const RankedPlan& plan : within.plans)
    CHECK(static_cast<double>(plan.prediction.peak_memory_bytes) <= 0.99 * peak);
  options.memory_margin = 0.999;
  const SearchResult none = search(job, options);
  REQUIRE(none.closest_miss);
  CHECK(none.closest_miss->memory_limit_bytes < 0.0011 * memory);
}

TEST_CASE("a proof goes on until the gap is small, or it is told to stop") {
  json value = job_json(small_model(8, 4), "p4d.24xlarge", 1, 32);
  value["training"]["recompute"] = "auto";
  const Job job = read(value);
  const SearchResult hasty = search(job, few);
  REQUIRE(hasty.proven_gap > 0);
  SearchOptions options = few;
  options.prove_gap = hasty.proven_gap / 2;
  const SearchResult proven = search(job, options);
  CHECK(proven.proven_gap <= *options.prove_gap);
  CHECK(proven.candidates_simulated > hasty.candidates_simulated);
  std::int64_t accounted = proven.candidates_simulated;
  for (const Rejection& rejection : proven.rejected) accounted += rejection.count;
  CHECK(accounted == proven.candidates_enumerated);
  int asked = 0;
  options.go_on = [&](const SearchProgress& progress) {
    CHECK(progress.gap > *options.prove_gap);
    ++asked;
    return false;
  };
  const SearchResult stopped = search(job, options);
  CHECK(asked == 1);
  CHECK(stopped.candidates_simulated == hasty.candidates_simulated);
  CHECK(stopped.proven_gap == hasty.proven_gap);
}

TEST_CASE("a search that is stopped during a proof keeps its plans") {
  json value = job_json(small_model(8, 4), "p4d.24xlarge", 1, 32);
  value["training"]["recompute"] = "auto";
  SearchOptions options = few;
  options.prove_gap = 0;
  std::atomic<bool> proves = false;
  options.go_on = [&](const SearchProgress&) { return proves = true; };
  options.stop = [&] { return proves.load(); };
  const SearchResult stopped = search(read(value), options);
  CHECK(proves);
  CHECK_FALSE(stopped.plans.empty());
}

TEST_CASE("any number of threads finds the same plans, and rejects the same ones") {
  json value = job_json(small_model(8, 4), "p4d.24xlarge", 2, 64);
  value["training"]["recompute"] = "auto";
  value["training"]["recompute_fraction"] = "auto";
  SearchOptions options = few;
  options.threads = 1;
  const SearchResult alone = search(read(value), options);
  options.threads = 3;
  const SearchResult together = search(read(value), options);
  CHECK(together.candidates_simulated == alone.candidates_simulated);
  CHECK(together.proven_gap == alone.proven_gap);
  REQUIRE(together.plans.size() == alone.plans.size());
  for (std::size_t i = 0; i < alone.plans.size(); ++i) {
    CHECK(together.plans[i].plan == alone.plans[i].plan);
    CHECK(together.plans[i].prediction.step_time_s == alone.plans[i].prediction.step_time_s);
  }
  REQUIRE(together.rejected.size() == alone.rejected.size());
  for (std::size_t i = 0; i < alone.rejected.size(); ++i) {
    CHECK(together.rejected[i].reason == alone.rejected[i].reason);
    CHECK(together.rejected[i].count == alone.rejected[i].count);
  }
}
