// Tests that each input changes the result in the expected direction, and compares it with closed
// forms if there are any.
#include "sim/advise/sensitivity.h"

#include "sim/planner/search.h"
#include "tests/catch.h"
#include "tests/sim/planner_jobs.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json job_json(const char* minimize) {
  return {{"model", "gpt2"},
          {"training",
           {{"global_batch", 64},
            {"sequence_length", 512},
            {"micro_batch", 2},
            {"precision", "fp16"},
            {"steps", 1000}}},
          {"cluster", {{"machine", "p3.16xlarge"}, {"count", 2}}},
          {"objective", {{"minimize", minimize}}}};
}

Sensitivity of(const json& value) {
  const Job job = read(value);
  const SearchResult found = search(job, {});
  REQUIRE(!found.plans.empty());
  return sensitivity(job, found.plans.front().plan, found.plans.front().cluster);
}

const Swing& swing(const Sensitivity& all, const std::string& input) {
  for (const Swing& each : all.swings)
    if (each.input == input) return each;
  FAIL("no input " << input);
  return all.swings.front();
}

}  // namespace

TEST_CASE("each input moves the answer in its direction, the widest first", "[advise]") {
  const Sensitivity all = of(job_json("step_time"));
  CHECK(all.answer == AnswerUnit::seconds);
  const double base = all.base.time_s;
  CHECK(all.swings.size() >= 10);
  for (const char* faster : {"GPU arithmetic", "GPU memory bandwidth", "network bandwidth"}) {
    INFO(faster);
    CHECK(swing(all, faster).low.number > base);
    CHECK(swing(all, faster).high.number < base);
  }
  CHECK(swing(all, "network latency").low.number < base);
  CHECK(swing(all, "network latency").high.number > base);
  CHECK(swing(all, "price of a host").width() == 0);  // of time
  CHECK(swing(all, "failures").low.number == base);
  CHECK(swing(all, "failures").high.number > base);
  for (std::size_t i = 0; i < all.swings.size(); ++i) {
    INFO(all.swings[i].input);
    CHECK(all.swings[i].base == base);
    if (i > 0) CHECK(all.swings[i].width() <= all.swings[i - 1].width());
  }
  // A batch of twice the size needs half of the steps, each with twice the work, which is never
  // slower.
  CHECK(swing(all, "global batch").high.number < base);
  CHECK(swing(all, "global batch").low.number > base);
}

TEST_CASE("links inside a host move the answer of one host, the network does not", "[advise]") {
  json value = job_json("step_time");
  value["cluster"]["count"] = 1;
  const Sensitivity all = of(value);
  CHECK(swing(all, "NVLink bandwidth").low.number > all.base.time_s);
  CHECK(swing(all, "NVLink bandwidth").high.number < all.base.time_s);
  CHECK(swing(all, "network bandwidth").width() == 0);
}

// A job's values for its hosts override the machine's profile, so the job's values are varied.
TEST_CASE("a job's own network and launch time move the answer", "[advise]") {
  const auto job = [](double gbps, double latency_us, double launch_us) {
    json value = job_json("step_time");
    value["parallelism"] = {{"data", 16}};
    value["cluster"]["network"] = {{"nics", 1}, {"gbps_per_nic", gbps}, {"latency_us", latency_us}};
    value["cluster"]["host_launch_us"] = launch_us;
    return of(value);
  };
  const Sensitivity all = job(5, 200, 50);
  const auto changed = [&](double gbps, double latency_us, double launch_us) {
    return Approx(job(gbps, latency_us, launch_us).base.time_s).epsilon(1e-9);
  };
  CHECK(swing(all, "network bandwidth").high.number == changed(6, 200, 50));
  CHECK(swing(all, "network bandwidth").low.number == changed(4, 200, 50));
  CHECK(swing(all, "network latency").high.number > 1.0001 * all.base.time_s);
  CHECK(swing(all, "network latency").low.number < 0.9999 * all.base.time_s);
  CHECK(swing(all, "launch time of a kernel").high.number == changed(5, 200, 100));
  CHECK(swing(all, "launch time of a kernel").low.number == changed(5, 200, 25));
  for (const char* input : {"network bandwidth", "launch time of a kernel"})
    CHECK(swing(all, input).width() > 1e-3 * all.base.time_s);
}

TEST_CASE("where money counts the price moves the answer in proportion", "[advise]") {
  const Sensitivity all = of(job_json("usd"));
  CHECK(all.answer == AnswerUnit::usd);
  const Swing& price = swing(all, "price of a host");
  CHECK(price.low.number == Approx(0.8 * price.base));
  CHECK(price.high.number == Approx(1.2 * price.base));
  const Swing& interval = swing(all, "step time, eight in ten");
  CHECK(interval.low.number < interval.high.number);
  CHECK(all.base.start.total_s() == 600);  // the run's start does not grow with its steps
  const Swing& speed = swing(all, "GPU arithmetic");
  CHECK(speed.low.answer->time_s > 600);
  CHECK(speed.low.answer->start.total_s() == 600);
}

TEST_CASE("failures of a job are inputs by themselves", "[advise]") {
  json value = job_json("usd");
  value["failures"] = {{"hardware_per_host_hour", 0.01}};
  const Sensitivity all = of(value);
  for (const char* worse : {"failure rates", "time to restart"}) {
    INFO(worse);
    CHECK(swing(all, worse).low.number < all.base.bill->usd);
    CHECK(swing(all, worse).high.number > all.base.bill->usd);
  }
  CHECK(swing(all, "bandwidth to storage").high.number <= all.base.bill->usd);
}

TEST_CASE("a batch that cannot be halved has no answer there", "[advise]") {
  json value = job_json("step_time");
  value["training"]["micro_batch"] = 4;
  value["training"]["global_batch"] = 64;  // 16 ranks of 4: no less
  const Sensitivity all = of(value);
  const Swing& batch = swing(all, "global batch");
  CHECK(!batch.low.answer);
  CHECK(batch.high.answer);
}
