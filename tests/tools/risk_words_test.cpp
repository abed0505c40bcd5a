// Tests the text of a played run. All its numbers differ, so that a wrong one is noticed.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tools/report/risk.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

RunModel model() {
  RunModel model;
  model.steps = 5000;
  return model;
}

RunRisk risk() {
  RunRisk risk;
  risk.runs = 400;
  risk.every_steps = 25;
  risk.wall_s = {.p10 = 3600, .p50 = 7200, .p90 = 10800, .mean = 9000};
  risk.usd = Spread{.p10 = 10, .p50 = 20, .p90 = 40, .mean = 30};
  risk.idle_usd = 5.5;
  risk.shares = {
      .steps = 0.5, .lost = 0.25, .checkpoints = 0.125, .restarts = 0.0625, .waiting = 0.0625};
  risk.causes = {{FailureCause::hardware, 1.5, 600}, {FailureCause::preemption, 0.25, 90}};
  risk.failures = 1.75;
  return risk;
}

const std::string times = "   P10 1.0 h   P50 2.0 h   P90 3.0 h   mean 2.5 h\n";
const std::string dollars = "         cost   P10 $10.00   P50 $20.00   P90 $40.00   mean $30.00\n";

}  // namespace

TEST_CASE("the text of a played run has its spreads, shares and causes", "[tools][report]") {
  const std::string first = "risk     5000 steps, 400 runs" + times;
  const std::string rest =
      "         time: steps 50.0 %   lost work 25.0 %   checkpoints 12.5 %   restarts 6.2 %   "
      "waiting for hosts 6.2 %\n"
      "         failures in a run (time lost): hardware 1.5 (10.0 min)   preemption 0.2 (90.000 "
      "s)\n";
  CHECK(risk_text(model(), risk(), {}) == first + dollars + rest);
  RunRisk free = risk();
  free.usd.reset();
  CHECK(risk_text(model(), free, {}) == first + rest);
  CHECK(risk_text(model(), risk(), SpareWorth{1, 300, 12.5}) ==
        first + dollars + rest + "         a spare host saves 5.0 min and $12.50\n");
}

TEST_CASE("what spare hosts are worth is said as time and money", "[tools][report]") {
  const auto last_line = [](const SpareWorth& spare) {
    const std::string text = risk_text(model(), risk(), spare);
    return text.substr(text.rfind("         ") + 9);
  };
  CHECK(last_line({2, 300, {}}) == "2 spare hosts save 5.0 min\n");
  CHECK(last_line({1, 0, {}}) == "a spare host saves no time\n");
  CHECK(last_line({1, -60, -3.0}) == "a spare host saves no time and costs $3.00 more\n");
  CHECK(last_line({3, 7200, -3.0}) == "3 spare hosts save 2.0 h and costs $3.00 more\n");
  CHECK(last_line({1, 60, 0.0}) == "a spare host saves 60.000 s and costs $0.00 more\n");
}

TEST_CASE("runs that seldom fail, and those that do not finish, have a line of their own",
          "[tools][report]") {
  const std::string first = "risk     5000 steps, 400 runs" + times + dollars;
  RunRisk rare = risk();
  rare.failures = 0.05;  // from there on all is said
  CHECK(risk_text(model(), rare, {}).starts_with(first + "         time: "));
  rare.failures = 0.04;
  CHECK(risk_text(model(), rare, SpareWorth{1, 5, 1.0}) ==
        first + "         one failure in 25 such runs\n");
  rare.failures = 0;
  CHECK(risk_text(model(), rare, {}) == first + "         no failure in any of them\n");
  RunRisk endless;
  endless.finishes = false;
  CHECK(risk_text(model(), endless, {}) ==
        "risk     does not finish: failures throw 5000 steps back faster than they get on\n");
}

TEST_CASE("the JSON of a played run has the same numbers", "[tools][report][json]") {
  json expected = json::parse(R"({
    "steps": 5000.0, "runs": 400, "finishes": true, "every_steps": 25,
    "wall_s": {"p10": 3600.0, "p50": 7200.0, "p90": 10800.0, "mean": 9000.0},
    "usd": {"p10": 10.0, "p50": 20.0, "p90": 40.0, "mean": 30.0}, "idle_usd": 5.5,
    "shares": {"steps": 0.5, "lost": 0.25, "checkpoints": 0.125, "restarts": 0.0625,
               "waiting": 0.0625},
    "failures": 1.75,
    "causes": [{"cause": "hardware", "failures": 1.5, "time_s": 600.0},
               {"cause": "preemption", "failures": 0.25, "time_s": 90.0}],
    "spare_worth": null})");
  CHECK(risk_json(model(), risk(), {}) == expected);
  expected["spare_worth"] = {{"spares", 2}, {"wall_s", 300.0}, {"usd", 12.5}};
  CHECK(risk_json(model(), risk(), SpareWorth{2, 300, 12.5}) == expected);
  expected["spare_worth"]["usd"] = nullptr;
  expected["usd"] = expected["idle_usd"] = nullptr;
  RunRisk free = risk();
  free.usd.reset();
  CHECK(risk_json(model(), free, SpareWorth{2, 300, {}}) == expected);
  RunRisk endless = risk();
  endless.finishes = false;
  CHECK(risk_json(model(), endless, {}) ==
        json::parse(R"({"steps": 5000.0, "runs": 400, "finishes": false, "every_steps": 25})"));
}
