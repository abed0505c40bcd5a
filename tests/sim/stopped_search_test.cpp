// A search that is asked to stop answers with what it has found so far.
#include <atomic>
#include <nlohmann/json.hpp>

#include "sim/advise/ladder.h"
#include "sim/planner/search.h"
#include "tests/catch.h"

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

// Asks to stop from the call number `calls` on.
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
