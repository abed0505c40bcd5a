// Tests that the summary of many simulated runs equals their sum, one by one.
#include <algorithm>

#include "sim/risk/played_run.h"
#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("spreads, shares and causes of a run are those of its played runs", "[risk]") {
  RunModel model;
  model.failures.sources = {{FailureCause::hardware, 1 / 20000.0, 0, 0, true},
                            {FailureCause::hang, 1 / 30000.0, 0, 600, false},
                            {FailureCause::maintenance, 1 / 40000.0, 3600, 0, true}};
  model.failures.restart_s = 300;
  model.failures.replacement_s = 900;
  model.failures.stall_s = 10;
  model.failures.write_s = 30;
  model.step_time_s = 5;
  model.steps = 10000;
  model.every_steps = 100;
  model.hosts = 3;
  model.price = Price{"", PriceKind::on_demand, "", 36, "2026-01-01", ""};
  constexpr int runs = 107;
  const RunRisk risk = risk_of(model, {.runs = runs, .seed = 5});
  REQUIRE(risk.runs == runs);
  std::vector<double> wall_s;
  double all_s = 0, lost_s = 0, checkpoints_s = 0, restarts_s = 0, waiting_s = 0, failures = 0;
  std::array<double, failure_cause_count> count{}, time_s{};
  for (int run = 0; run < runs; ++run) {
    const PlayedRun played = play_run(model, 5, run);
    wall_s.push_back(played.wall_s);
    all_s += played.wall_s, lost_s += played.lost_s, checkpoints_s += played.checkpoints_s;
    restarts_s += played.restarts_s, waiting_s += played.waiting_s;
    failures += static_cast<double>(played.failures);
    for (std::size_t cause = 0; cause < failure_cause_count; ++cause)
      count[cause] += played.count_of[cause], time_s[cause] += played.time_of_s[cause];
  }
  std::ranges::sort(wall_s);
  // The 10th, 50th and 90th percentiles of 107 runs are the 11th, 54th and 97th values.
  CHECK(risk.wall_s.p10 == wall_s[10]);
  CHECK(risk.wall_s.p50 == wall_s[53]);
  CHECK(risk.wall_s.p90 == wall_s[96]);
  CHECK(risk.wall_s.mean == Approx(all_s / runs));
  // Three hosts cost 36 dollars an hour each.
  REQUIRE(risk.usd);
  CHECK(risk.usd->p50 == Approx(3 * 36 * wall_s[53] / 3600));
  CHECK(risk.shares.lost == Approx(lost_s / all_s));
  CHECK(risk.shares.checkpoints == Approx(checkpoints_s / all_s));
  CHECK(risk.shares.restarts == Approx(restarts_s / all_s));
  CHECK(risk.shares.waiting == Approx(waiting_s / all_s));
  CHECK(risk.shares.steps == Approx(runs * model.steps * model.step_time_s / all_s));
  CHECK(risk.failures == Approx(failures / runs));
  REQUIRE(risk.causes.size() == 3);
  for (std::size_t i = 0; i < risk.causes.size(); ++i) {
    const auto cause = static_cast<std::size_t>(model.failures.sources[i].cause);
    CHECK(risk.causes[i].cause == model.failures.sources[i].cause);
    CHECK(risk.causes[i].failures == Approx(count[cause] / runs));
    CHECK(risk.causes[i].time_s == Approx(time_s[cause] / runs));
  }
}
