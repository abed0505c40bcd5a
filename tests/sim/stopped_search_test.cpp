// Tests that a search that is asked to stop returns what it has found so far.
#include <atomic>
#include <nlohmann/json.hpp>

#include "sim/advise/ladder.h"
#include "sim/planner/search.h"
#include "sim/planner/survey.h"
#include "tests/catch.h"
#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Job small_job() {
  return read_job(json{{"model", "gpt2"},
                       {"training", {{"global_batch", 32}, {"sequence_length", 512}}},
                       {"cluster", {{"machine", "p3.8xlarge"}, {"count", {1, 2}}}},
                       {"parallelism", "auto"}},
                  "job.json", ".", machine_facts);
}

// Returns options that ask the search to stop after this many calls of `stop`.
SearchOptions stopped_after(int calls) {
  SearchOptions options;
  options.threads = 1;
  options.stop = [count = std::make_shared<std::atomic<int>>(0), calls] {
    return ++*count > calls;
  };
  return options;
}

}  // namespace

TEST_CASE("a search that is stopped keeps the plans that it has found", "[sim][planner][stop]") {
  const Job job = small_job();
  SearchOptions whole;
  whole.threads = 1;
  const SearchResult all = search(job, whole);
  CHECK_FALSE(all.stopped);
  std::size_t before = 0;
  bool found_some = false;
  for (const int calls : {0, 1, 5, 20, 50, 100, 100000}) {
    const SearchResult part = search(job, stopped_after(calls));
    CAPTURE(calls, part.plans.size());
    CHECK(part.stopped == (calls < 100000));
    CHECK(part.candidates_simulated >= static_cast<std::int64_t>(part.plans.size()));
    CHECK(part.candidates_simulated <= all.candidates_simulated);
    CHECK(part.plans.size() + 1 >= before);
    before = part.plans.size();
    found_some = found_some || (part.stopped && !part.plans.empty());
  }
  CHECK(found_some);
  const SearchResult last = search(job, stopped_after(100000));
  REQUIRE(last.plans.size() == all.plans.size());
  CHECK(to_json(last.plans.front().plan) == to_json(all.plans.front().plan));
}

TEST_CASE("a ladder that is stopped says which rungs have no plan for that",
          "[sim][advise][stop]") {
  LadderOptions options;
  options.search = stopped_after(0);
  for (const Ladder& ladder : ladders(small_job(), options)) {
    CHECK_FALSE(ladder.stop);
    for (const Rung& rung : ladder.rungs) CHECK(rung.reason == "not searched to its end: stopped");
  }
}

TEST_CASE("the first look at a space ends at once when it is stopped", "[sim][planner][stop]") {
  const Planned planned(job_json(small_model(4, 4), "p3.8xlarge", 1, 32), "p3.8xlarge", 1);
  Surveyor surveyor(planned.job.model, planned.base, planned.cluster,
                    SharedProfiles().of(planned.job.model, planned.base, planned.cluster), 1);
  struct Stop {};
  int calls = 0;
  CHECK_THROWS_AS(surveyor.usual(planned.space, {1e12, 1, 1},
                                 [&] {
                                   if (++calls == 3) throw Stop{};
                                 }),
                  Stop);
  CHECK(calls == 3);
}

TEST_CASE("clusters that differ in hosts alone share profiles, and their bounds are as if alone",
          "[sim][planner]") {
  Planned one(job_json(small_model(4, 4), "p3.8xlarge", 1, 32), "p3.8xlarge", 1);
  Planned two(job_json(small_model(4, 4), "p3.8xlarge", 2, 32), "p3.8xlarge", 2);
  SharedProfiles shared;
  const auto of_one = shared.of(one.job.model, one.base, one.cluster);
  CHECK(shared.of(two.job.model, two.base, two.cluster) == of_one);
  Planned other(job_json(small_model(4, 4), "p3.16xlarge", 1, 32), "p3.16xlarge", 1);
  CHECK(shared.of(other.job.model, other.base, other.cluster) != of_one);
  other.base.training.precision = Precision::fp32;
  CHECK(shared.of(one.job.model, other.base, one.cluster) != of_one);
  BoundMaker sharing(two.job.model, two.base, two.cluster, of_one);
  for (const Candidate& candidate : two.candidates) {
    CHECK(sharing.time(candidate).step_time_s == two.bounds.time(candidate).step_time_s);
    CHECK(sharing.memory(candidate).likely_bytes == two.bounds.memory(candidate).likely_bytes);
  }
}
