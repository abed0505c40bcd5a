// Tests whole runs with failures against Daly's formula, against a run that is played step by step,
// and against the published interruptions of Llama 3 405B.
#include "sim/risk/risk.h"

#include <cmath>
#include <cstring>

#include "hwprofiles/load.h"
#include "sim/predict/goodput.h"
#include "sim/risk/played_run.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

constexpr double day = 86400;

RunModel sudden(double mean_s, double restart_s, double stall_s, double write_s) {
  RunModel model;
  model.failures.sources = {{FailureCause::hardware, 1 / mean_s, 0, 0, true}};
  model.failures.restart_s = restart_s;
  model.failures.stall_s = stall_s;
  model.failures.write_s = write_s;
  model.step_time_s = 5;
  model.steps = 400 * mean_s / model.step_time_s;
  model.price = Price{"", PriceKind::on_demand, "", 36, "2026-01-01", ""};
  return model;
}

// Returns a run on 2,048 hosts of 8 H100 for 54 days, with the state of 405 billion parameters.
RunModel llama_3(double wall_days) {
  Failures failures;
  failures.recovery = Recovery::hot_spare;
  failures.spares = 16;
  RunModel model;
  model.hosts = 2048;
  for (const FailureCauseInfo& info : failure_causes()) {
    FailureSource source{info.cause, failures.rate_per_host_hour(info.cause, 8) * 2048 / 3600, 0, 0,
                         info.loses_host};
    if (info.cause == FailureCause::hang) source.detection_s = failures.hang_detection_s;
    if (info.cause == FailureCause::maintenance) source.notice_s = failures.maintenance_notice_s;
    if (source.per_s > 0) model.failures.sources.push_back(source);
  }
  model.failures.restart_s = failures.restart_time_s();
  model.failures.replacement_s = failures.replacement_s;
  model.failures.spares = failures.spare_hosts();
  const double bytes_of_host = 405e9 * 12 / 2048;
  model.failures.stall_s = 2 * bytes_of_host / 8 / 3.35e12;
  model.failures.write_s = bytes_of_host / failures.checkpoint_bytes_per_s;
  model.step_time_s = 6;
  model.steps = wall_days * day / model.step_time_s;
  return model;
}

bool same_bytes(const RunRisk& a, const RunRisk& b) {
  return std::memcmp(&a.wall_s, &b.wall_s, sizeof(Spread)) == 0 &&
         std::memcmp(&a.shares, &b.shares, sizeof(TimeShares)) == 0 && a.failures == b.failures;
}

}  // namespace

TEST_CASE("the mean of played runs is Daly's where his assumptions hold", "[risk]") {
  for (const RunModel& given :
       {sudden(36000, 300, 20, 0), sudden(3600, 600, 5, 30), sudden(1e5, 900, 60, 0)})
    for (const double interval_s : {500.0, 2000.0, 8000.0}) {
      RunModel model = given;
      model.every_steps = static_cast<int>(interval_s / model.step_time_s);
      const RunRisk risk = risk_of(model, {.runs = 1000});
      const double expected =
          model.steps * model.step_time_s / goodput(failure_model(model.failures), interval_s);
      INFO("interval " << interval_s << " write " << model.failures.write_s);
      CHECK(risk.wall_s.mean == Approx(expected).epsilon(0.01));
      CHECK(risk.usd->mean == Approx(risk.wall_s.mean / 100).epsilon(1e-9));  // $36 an hour
      CHECK(risk.wall_s.p10 < risk.wall_s.p50);
      CHECK(risk.wall_s.p50 < risk.wall_s.p90);
    }
}

TEST_CASE("several causes as one have the mean of the played runs", "[risk]") {
  RunModel model = sudden(40000, 400, 10, 20);
  model.failures.replacement_s = 300;
  model.failures.sources.push_back({FailureCause::hang, 1 / 50000.0, 0, 600, false});
  model.failures.sources.push_back({FailureCause::preemption, 1 / 30000.0, 120, 0, true});
  model.every_steps = 300;
  const RunRisk risk = risk_of(model, {.runs = 1000});
  const double share = goodput(failure_model(model.failures), 300 * model.step_time_s);
  CHECK(risk.wall_s.mean == Approx(model.steps * model.step_time_s / share).epsilon(0.02));
}

TEST_CASE("the parts of a run add up to it, and each cause has its own", "[risk]") {
  RunModel model = sudden(20000, 400, 10, 20);
  model.failures.replacement_s = 900;
  model.failures.spares = 1;
  model.failures.sources.push_back({FailureCause::hang, 1 / 20000.0, 0, 600, false});
  model.failures.sources.push_back({FailureCause::maintenance, 1 / 20000.0, 3600, 0, true});
  model.every_steps = 100;
  for (int number = 0; number < 50; ++number) {
    const PlayedRun run = play_run(model, 3, number);
    REQUIRE(run.finished);
    const double steps_s = model.steps * model.step_time_s;
    CHECK(run.wall_s - run.lost_s - run.checkpoints_s - run.restarts_s - run.waiting_s ==
          Approx(steps_s).epsilon(1e-9));
    double of_causes = 0, count = 0;
    for (std::size_t cause = 0; cause < failure_cause_count; ++cause) {
      of_causes += run.time_of_s[cause];
      count += run.count_of[cause];
    }
    CHECK(of_causes == Approx(run.lost_s + run.restarts_s + run.waiting_s).epsilon(1e-9));
    CHECK(count == static_cast<double>(run.failures));
  }
}

TEST_CASE("a notice saves the work where a checkpoint can be written within it", "[risk]") {
  RunModel model = sudden(20000, 300, 5, 60);
  model.every_steps = 400;
  FailureSource& source = model.failures.sources.front();
  source.cause = FailureCause::preemption;
  const double sudden_s = risk_of(model, {.runs = 200}).wall_s.mean;
  source.notice_s = 64.9;  // 5 + 60 are needed
  CHECK(risk_of(model, {.runs = 200}).wall_s.mean == sudden_s);
  source.notice_s = 65;
  const RunRisk saved = risk_of(model, {.runs = 200});
  CHECK(saved.wall_s.mean < sudden_s);
  // Only the work that is done while the checkpoint is written is lost, and a part of a step.
  CHECK(saved.shares.lost * saved.wall_s.mean / saved.failures < 60 + 5 + model.step_time_s);
}

TEST_CASE("the chosen interval beats shorter and longer ones on the same failures", "[risk]") {
  RunModel model = sudden(36000, 300, 20, 30);
  const RunRisk best = risk_of(model, {.runs = 200});
  CHECK(best.every_steps * model.step_time_s == Approx(std::sqrt(2 * 20 * 36000.0)).epsilon(0.05));
  for (const double factor : {0.3, 3.0}) {
    model.every_steps = static_cast<int>(best.every_steps * factor);
    CHECK(risk_of(model, {.runs = 200}).wall_s.mean > best.wall_s.mean);
  }
}

TEST_CASE("Llama 3's interruptions and its effective training time come out", "[risk]") {
  // The run takes 54 days, with the number of steps that fit into them.
  RunModel model = llama_3(54);
  model.steps *= risk_of(model, {.runs = 100}).shares.steps;
  const RunRisk risk = risk_of(model, {.runs = 1000});
  CHECK(risk.wall_s.mean / day == Approx(54).epsilon(0.01));
  // The paper reports 466 interruptions, 419 of them unexpected, and "higher than 90 % effective
  // training time".
  double unexpected = 0;
  for (const CauseRisk& cause : risk.causes)
    if (cause.cause != FailureCause::maintenance) unexpected += cause.failures;
  CHECK(risk.failures == Approx(466).epsilon(0.02));
  CHECK(unexpected == Approx(419).epsilon(0.02));
  CHECK(risk.shares.steps > 0.9);
  CHECK(risk.shares.steps < 0.99);
}

TEST_CASE("a spare is worth the waiting that it saves, less what it costs", "[risk]") {
  RunModel model = sudden(20000, 300, 5, 0);
  model.hosts = 16;
  model.every_steps = 50;
  model.failures.replacement_s = 4 * 3600;
  const auto worth_of = [](const RunModel& run) {
    return spare_worth(run, risk_of(run, {.runs = 200}), {.runs = 200});
  };
  const SpareWorth worth = worth_of(model).value();
  CHECK(worth.spares == 1);
  CHECK(worth.wall_s > 0);
  RunModel with = model;
  with.failures.spares = 1;
  const RunRisk a = risk_of(with, {.runs = 200}), b = risk_of(model, {.runs = 200});
  CHECK(*worth.usd == Approx(b.usd->mean - a.usd->mean));
  CHECK(*worth.usd > 0);
  CHECK(a.shares.waiting < b.shares.waiting);
  CHECK(*worth_of(with)->usd == *worth.usd);  // looked at from the other side
  model.failures.replacement_s = 10;          // hardly anything to wait for
  CHECK(*worth_of(model)->usd < 0);
  model.failures.sources.front().loses_host = false;
  CHECK_FALSE(worth_of(model));
}

TEST_CASE("each spare stands in for one host until another one comes", "[risk]") {
  RunModel model = sudden(1000, 100, 1, 0);
  model.steps = 2000;
  model.failures.replacement_s = 700;
  double before = 1;
  for (const int spares : {0, 1, 2, 4}) {
    model.failures.spares = spares;
    const RunRisk risk = risk_of(model, {.runs = 100});
    CHECK(risk.shares.waiting < before);
    before = risk.shares.waiting;
  }
  CHECK(before < 0.01);
}

TEST_CASE("one failure takes its detection, a host asked for with the notice, and a restart",
          "[risk]") {
  ClusterFailures failures;
  failures.restart_s = 300;
  failures.replacement_s = 900;
  failures.stall_s = 5;
  failures.write_s = 20;
  const double per_s = 1e-5;
  const auto outage_s = [&](FailureSource source) {
    source.per_s = per_s;
    failures.sources = {source};
    const FailureModel model = failure_model(failures);
    return model.restart_s / model.mean_time_between_failures_s / per_s;
  };
  using enum FailureCause;
  // Without a notice, an outage takes 40 + 900 + 300 s. With a notice of 120 s, the host is
  // replaced 780 s after the failure, and the checkpoint of 5 + 20 s is written in time.
  CHECK(outage_s({hardware, 0, 0, 40, true}) == Approx(1240));
  CHECK(outage_s({preemption, 0, 120, 0, true}) == Approx(780 + 300 + 25));
  CHECK(outage_s({preemption, 0, 24, 0, true}) == Approx(876 + 300));  // too short to write
  CHECK(outage_s({maintenance, 0, 3600, 0, true}) == Approx(300 + 25));
  CHECK(outage_s({hang, 0, 0, 600, false}) == Approx(600 + 300));
  failures.spares = 1;
  CHECK(outage_s({hardware, 0, 0, 40, true}) == Approx(340));
  CHECK(outage_s({preemption, 0, 120, 0, true}) == Approx(300 + 25));
}

// Failures are so rare that no failure occurs during another outage.
TEST_CASE("a played run waits for each lost host what its notice leaves of the replacement",
          "[risk]") {
  RunModel model = sudden(1e6, 100, 1, 0);
  model.steps = 1e6;  // 5e6 s
  model.every_steps = 1000;
  model.failures.replacement_s = 900;
  FailureSource& source = model.failures.sources.front();
  std::int64_t failures = 0;
  for (int number = 0; number < 20; ++number)
    for (const double notice_s : {0.0, 600.0, 2000.0}) {
      source.notice_s = notice_s;
      source.detection_s = 50;
      const PlayedRun run = play_run(model, 1, number);
      const auto count = static_cast<double>(run.failures);
      // The detection of the failure takes 50 s, during which the replacement is already on its
      // way.
      CHECK(run.waiting_s == Approx(count * std::max(0.0, 900 - notice_s - 50)));
      CHECK(run.restarts_s == Approx(count * (50 + 100)));
      failures += run.failures;
    }
  CHECK(failures > 200);
}

TEST_CASE("in a played run spares are used up one by one, and come again", "[risk]") {
  RunModel model = sudden(1e6, 100, 1, 0);
  model.steps = 4e5;  // 2e6 s
  model.every_steps = 1000;
  int with_spares = 0, short_of_one = 0;
  for (int number = 0; number < 60; ++number) {
    const auto played = [&](int spares, double replacement_s) {
      model.failures.spares = spares;
      model.failures.replacement_s = replacement_s;
      return play_run(model, 2, number);
    };
    const auto waiting_s = [&](int spares, double replacement_s) {
      return played(spares, replacement_s).waiting_s;
    };
    const int lost = static_cast<int>(played(0, 0).failures);
    if (lost < 1 || lost > 4) continue;
    constexpr double short_s = 10, long_s = 2.1e6;  // longer than the run
    CHECK(waiting_s(lost, long_s) == 0);
    CHECK(waiting_s(0, short_s) == Approx(lost * short_s));
    CHECK(waiting_s(1, short_s) == 0);  // the next one is there long before it is needed
    ++with_spares;
    if (lost == 1) continue;
    CHECK(waiting_s(lost - 1, long_s) > 0);
    ++short_of_one;
  }
  CHECK(with_spares > 20);
  CHECK(short_of_one > 10);
}

TEST_CASE("a run waits for a host exactly when it has lost more hosts than it has spares",
          "[risk]") {
  RunModel model = sudden(1000, 100, 1, 0);
  model.steps = 400;  // two mean times between failures
  model.every_steps = 1;
  model.failures.replacement_s = 1e5;
  for (const int spares : {0, 1, 2, 3}) {
    model.failures.spares = spares;
    int waits = 0;
    constexpr int runs = 100;
    for (int number = 0; number < runs; ++number) {
      const PlayedRun run = play_run(model, 7, number);
      CHECK((run.waiting_s > 0) == (run.failures > spares));
      waits += run.waiting_s > 0 ? 1 : 0;
    }
    CHECK(waits > 0);
    CHECK(waits < runs);
  }
}

TEST_CASE("the same seed gives the same bytes, whatever the number of threads", "[risk]") {
  const RunModel model = llama_3(20);
  const RunRisk one = risk_of(model, {.runs = 333, .seed = 5});
  CHECK(same_bytes(one, risk_of(model, {.runs = 333, .seed = 5, .threads = 3})));
  CHECK_FALSE(same_bytes(one, risk_of(model, {.runs = 333, .seed = 6})));
}

TEST_CASE("a run that hardly gets on is given up, and one that fails often is played less",
          "[risk]") {
  RunModel model = sudden(100, 300, 5, 60);
  model.steps = 100'000;
  model.every_steps = 100;
  CHECK_FALSE(risk_of(model).finishes);
  RunModel often = sudden(1000, 1, 0, 0);
  often.steps = 2e7;  // a hundred thousand failures a run
  often.every_steps = 10;
  const RunRisk risk = risk_of(often);
  CHECK(risk.finishes);
  CHECK(risk.runs < 1000);
  CHECK(risk.runs >= 100);
}

TEST_CASE("a run without failures is its steps and the checkpoints' stalls", "[risk]") {
  RunModel model = sudden(1, 1, 2, 0);
  model.failures.sources.clear();
  model.steps = 1000;
  model.every_steps = 100;
  const RunRisk risk = risk_of(model, {.runs = 10});
  CHECK(risk.wall_s.p10 == Approx(1000 * 5 + 9 * 2));  // none after the last step
  CHECK(risk.wall_s.p90 == risk.wall_s.p10);
}
