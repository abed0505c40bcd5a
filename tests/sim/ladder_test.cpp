// Tests the ladder of `advise`, from one GPU to many: its rungs, where it stops, and the sentence
// that says why.
#include "sim/advise/ladder.h"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "sim/advise/batch_law.h"
#include "sim/planner/objective.h"
#include "tests/catch.h"
#include "tests/sim/planner_jobs.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json gpt2_on(const json& machine, const json& count) {
  return {
      {"model", "gpt2"},
      {"training",
       {{"global_batch", 64}, {"sequence_length", 512}, {"micro_batch", "auto"}, {"steps", 1000}}},
      {"cluster", {{"machine", machine}, {"count", count}}},
      {"parallelism", {{"zero_stage", "auto"}}}};
}

LadderOptions quick() {
  LadderOptions options;
  options.search.keep_best = 1;
  options.search.simulate_at_most = 4;
  options.search.simulate_for_gap = 0;
  return options;
}

}  // namespace

TEST_CASE("searches for rungs on several threads tell how far they are one at a time", "[advise]") {
  std::atomic<bool> is_told = false, is_told_twice = false;
  std::set<int> counts;
  LadderOptions options = quick();
  options.search.threads = 2;
  options.search.watch = [&](const ClusterProgress& progress) {
    if (is_told.exchange(true)) is_told_twice = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    counts.insert(progress.count);
    is_told = false;
  };
  ladders(read(gpt2_on("p3.16xlarge", 4)), options);
  CHECK_FALSE(is_told_twice);
  CHECK(counts == std::set<int>{1, 2, 4});
}

TEST_CASE("a ladder goes from one GPU over one host to the most that the job allows", "[advise]") {
  const Job job = read(gpt2_on("p3.16xlarge", 4));
  const std::vector<Ladder> found = ladders(job, quick());
  REQUIRE(found.size() == 1);
  const std::vector<Rung>& rungs = found[0].rungs;
  REQUIRE(rungs.size() == 4);
  const int gpus[] = {1, 8, 16, 32};
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    INFO(i);
    CHECK(rungs[i].gpus() == gpus[i]);
    REQUIRE(rungs[i].best);
    CHECK(rungs[i].best->cluster.ranks() == gpus[i]);
    CHECK(rungs[i].best->plan.training.global_batch == 64);
    CHECK(rungs[i].parts.step_time == rungs[i].best->prediction.step_time);
    CHECK(rungs[i].largest.micro_batch >= rungs[i].best->plan.training.micro_batch);
    CHECK(rungs[i].whole->tokens == 1000.0 * 64 * 512);
  }
  CHECK(rungs[0].efficiency == 1);
  for (std::size_t i = 1; i < rungs.size(); ++i) {
    INFO(i);
    const double each = rungs[i].best->prediction.tokens_per_s / gpus[i];
    CHECK(rungs[i].efficiency == Approx(each / rungs[0].best->prediction.tokens_per_s));
    const Rung& before = rungs[i - 1];
    const double added =
        rungs[i].best->prediction.tokens_per_s - before.best->prediction.tokens_per_s;
    CHECK(rungs[i].added_efficiency ==
          Approx(added / (gpus[i] - before.gpus()) /
                 (before.best->prediction.tokens_per_s / before.gpus())));
  }
  REQUIRE(found[0].stop);
  // If the objective is time, the ladder stops before the first rung whose additional GPUs bring
  // too little.
  const LadderOptions options = quick();
  for (std::size_t i = 1; i <= *found[0].stop; ++i)
    CHECK(rungs[i].added_efficiency >= options.worthwhile);
  if (*found[0].stop + 1 < rungs.size()) {
    CHECK(rungs[*found[0].stop + 1].added_efficiency < options.worthwhile);
    CHECK(found[0].reason.find("efficiency") != std::string::npos);
  }
}

TEST_CASE("where money counts a ladder stops at its cheapest rung", "[advise]") {
  json value = gpt2_on(json{"p3.2xlarge", "p3.16xlarge"}, 4);
  value["objective"] = {{"minimize", "usd"}};
  const Job job = read(value);
  const std::vector<Ladder> found = ladders(job, quick());
  REQUIRE(found.size() == 2);
  CHECK(found[0].rungs.size() == 3);  // a host of p3.2xlarge is one GPU
  for (const Ladder& ladder : found) {
    REQUIRE(ladder.stop);
    for (const Rung& rung : ladder.rungs)
      if (rung.best) CHECK(ladder.rungs[*ladder.stop].whole->bill->usd <= rung.whole->bill->usd);
  }
}

TEST_CASE("a deadline moves the stop to more GPUs, and no rung stops if none keeps it",
          "[advise]") {
  json value = gpt2_on("p4d.24xlarge", 4);
  value["training"]["global_batch"] = 1024;
  value["training"]["steps"] = 3000;  // so few that the start of the run is a large share
  value["objective"] = {{"minimize", "usd"}};
  const std::vector<Ladder> free_choice = ladders(read(value), quick());
  const std::vector<Rung>& rungs = free_choice[0].rungs;
  const double fast = 1.02 * rungs[3].whole->time_s;
  REQUIRE(rungs[2].whole->time_s > 1.2 * fast);
  value["objective"]["deadline_s"] = fast;
  const std::vector<Ladder> hurried = ladders(read(value), quick());
  REQUIRE(hurried[0].stop);
  CHECK(*hurried[0].stop == 3);
  value["objective"]["deadline_s"] = rungs[3].whole->time_s / 2;
  CHECK(!ladders(read(value), quick())[0].stop);
}

TEST_CASE("what one GPU cannot hold as the job says is opened key by key, or missed with figures",
          "[advise]") {
  json value = gpt2_on("p3.16xlarge", 1);
  value["model"] = "gpt2-xl";
  value["training"]["micro_batch"] = 16;
  value["training"]["sequence_length"] = 1024;
  const std::vector<Ladder> found = ladders(read(value), quick());
  const Rung& one = found[0].rungs[0];
  REQUIRE(one.gpus() == 1);
  CHECK(!one.opened.empty());
  CHECK(one.opened.front() == "training.micro_batch");
  if (!one.best) {
    REQUIRE(one.closest_miss);
    CHECK(one.closest_miss->peak_memory_bytes > one.closest_miss->memory_limit_bytes);
    CHECK(!one.reason.empty());
  }
}

TEST_CASE("the useful batch follows its published law", "[advise]") {
  CHECK(useful_batch_tokens(1e20) == Approx(1.0171e6).epsilon(1e-3));
  CHECK(useful_batch_tokens(1e23) / useful_batch_tokens(1e20) == Approx(9.58).epsilon(1e-2));
}
