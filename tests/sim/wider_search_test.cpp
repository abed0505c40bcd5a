// Tests that more clusters to choose from are never a loss: for random jobs, a search over several
// clusters finds a plan at least as good as a search on each single cluster and on some of them.
#include <optional>
#include <vector>

#include "models/core/error.h"
#include "sim/planner/objective.h"
#include "sim/planner/search.h"
#include "sim/predict/goodput.h"
#include "tests/catch.h"
#include "tests/fuzz/random_job.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const int jobs = sanitized ? 20 : 200 / one_in(5);

// Options with few simulations, so that the first look at a cluster leaves many plans open.
const SearchOptions few{
    .keep_best = 3, .simulate_at_most = 8, .simulate_first = 2, .load = fuzz::load_machine_of_job};

struct Found {
  std::optional<Merit> best;  // nothing: no plan fits, or the job is refused
  std::int64_t simulated = 0;
};

Found found(json job, const json& machines, const json& counts) {
  job["cluster"]["machine"] = machines;
  job["cluster"]["count"] = counts;
  try {
    const Job read = fuzz::read_random_job(job);
    const SearchResult result = search(read, few);
    std::int64_t accounted = result.candidates_simulated;
    for (const Rejection& rejection : result.rejected) accounted += rejection.count;
    CHECK(accounted == result.candidates_enumerated);
    if (result.plans.empty()) return {std::nullopt, result.candidates_simulated};
    const RankedPlan& first = result.plans.front();
    return {JobOnCluster(read, first.plan.training, first.cluster)
                .merit(useful_step_time_s(first.prediction)),
            result.candidates_simulated};
  } catch (const InputError&) {
    return {};
  }
}

bool is_small(const json& job) {
  const Job read = fuzz::read_random_job(job);
  return read.model.layers <= 3 && read.plan.training.global_batch <= 32;
}

}  // namespace

TEST_CASE("a search over more clusters never finds a worse plan", "[planner]") {
  fuzz::Random random(7);
  int compared = 0, searched_again = 0;
  for (int drawn = 0; compared < jobs; ++drawn) {
    REQUIRE(drawn < 20 * jobs);
    json job = fuzz::random_open_job(random);
    if (job["cluster"]["machine"] == "local") continue;
    job["cluster"].erase("processes_per_host");
    try {
      if (!is_small(job)) continue;
    } catch (const InputError&) {
      continue;
    }
    const json own = job["cluster"]["machine"], other = "p4d.24xlarge";
    const bool of_two_machines = compared % 10 == 0 && own != other;
    const json machines = of_two_machines ? json{own, other} : json{own};
    const Found wide = found(job, machines, {1, 2});
    if (!wide.best) continue;
    INFO(job.dump());
    std::vector<Found> parts;
    if (of_two_machines) parts = {found(job, own, {1, 2}), found(job, machines, 2)};
    for (const json& machine : machines)
      for (const int count : {1, 2}) parts.push_back(found(job, machine, count));
    for (const Found& part : parts)
      if (part.best) CHECK(*wide.best <= *part.best);
    ++compared;
    searched_again += wide.simulated > 2 * std::int64_t(machines.size()) * few.simulate_first;
  }
  CHECK(searched_again > jobs / 4);
}
