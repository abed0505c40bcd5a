#include "sim/validate/fit_runs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "sim/validate/case.h"
#include "sim/validate/score.h"
#include "tests/catch.h"
#include "tests/sim/compiled.h"

using namespace meshwright::tests;

namespace {

StepRow row_on(const std::string& machine, int layers, int micro_batch) {
  StepRow row;
  row.id = "layers " + std::to_string(layers) + ", micro-batch " + std::to_string(micro_batch);
  row.job = R"({"model": {"family": "gpt", "hidden": 4096, "heads": 32, "positions": 2048,
      "vocab": 51200, "layers": )" +
            std::to_string(layers) + R"(}, "training": {"global_batch": 8, "micro_batch": )" +
            std::to_string(micro_batch) +
            R"(, "sequence_length": 2048, "precision": "bf16"}, "cluster": {"machine": ")" +
            machine + R"(", "processes_per_host": 1}, "parallelism": {"data": 1}})";
  return row;
}

// Returns measured steps of a machine whose matmuls reach 0.8 of the profile's speed.
Evidence measured_on_slow_gpus(std::vector<int> layers) {
  Machine slow = load_machine("dgx-a100-80gb");
  slow.gpu.gemm.points[0].fraction *= 0.8;
  Evidence runs;
  runs.source = "mine";
  for (const int count : layers) {
    StepRow row = row_on("dgx-a100-80gb", count, 4);
    const StepCase step = case_of(row, slow);
    row.step_time_s =
        predict(compiled_for(step.job.model, step.plan, step.cluster), step.cluster).step_time_s;
    runs.steps.push_back(row);
  }
  return runs;
}

double error_on(const Evidence& runs, const Machine& machine) {
  return score(std::span(&runs, 1), {}, [&](const std::string&) { return machine; }).overall.mape;
}

}  // namespace

TEST_CASE("a few steps of a cluster tell what others will take there", "[validate]") {
  const RunsFit fitted = fit_runs(measured_on_slow_gpus({2, 8}));
  const Evidence others = measured_on_slow_gpus({4, 16});
  const double before = error_on(others, load_machine("dgx-a100-80gb"));
  const double after = error_on(others, fitted.machine);
  CHECK(before > 0.1);
  CHECK(after < before / 3);
  for (const FittedRun& run : fitted.runs)
    CHECK(std::abs(run.after_s - run.measured_s) < std::abs(run.before_s - run.measured_s) / 3);
}

TEST_CASE("one step moves the constants, no step moves what it says nothing of", "[validate]") {
  const RunsFit fitted = fit_runs(measured_on_slow_gpus({4}));
  CHECK(error_on(measured_on_slow_gpus({8}), fitted.machine) < 0.06);
  const auto constant = [&](const std::string& name) {
    const auto found = std::ranges::find_if(fitted.fit.constants, [&](const FittedConstant& each) {
      return each.name == name && each.rows > 0;
    });
    return found == fitted.fit.constants.end() ? FittedConstant{} : *found;
  };
  CHECK(constant("gemm").after < constant("gemm").before);
  CHECK(constant("gemm").spread_after < constant("gemm").spread_before);
  const Machine shipped = load_machine("dgx-a100-80gb");
  CHECK(fitted.machine.network.efficiency == shipped.network.efficiency);  // of one GPU
  CHECK(fitted.machine.gpu.kernels.flash_forward == shipped.gpu.kernels.flash_forward);
}

TEST_CASE("more steps make the interval of a prediction narrower", "[validate]") {
  const RunsFit one = fit_runs(measured_on_slow_gpus({4}));
  const RunsFit four = fit_runs(measured_on_slow_gpus({2, 4, 8, 16}));
  const auto width = [](const Residuals::Interval& interval) {
    return interval.high / interval.low;
  };
  CHECK(one.fit.spread_after < one.fit.spread_before);
  CHECK(four.fit.spread_after < one.fit.spread_after);
  CHECK(width(four.after) <= width(one.after));
  REQUIRE(four.machine.residuals);
  CHECK(four.machine.residuals->one_host->rows == 4);
}

TEST_CASE("a fitted profile is read back as it was written", "[validate]") {
  const Machine machine = fit_runs(measured_on_slow_gpus({4})).machine;
  const Machine again = machine_of_text(text_of(machine), "fitted");
  CHECK(text_of(again) == text_of(machine));
  CHECK(again.gpu.gemm.points[0].fraction == Approx(machine.gpu.gemm.points[0].fraction));
}

TEST_CASE("runs that no profile can be made of are refused", "[validate]") {
  Evidence runs;
  runs.source = "mine";
  CHECK_THROWS_WITH(fit_runs(runs), "mine: no measured steps; a row has a `job` and a `measured`");
  runs.steps = {row_on("dgx-a100-80gb", 2, 4), row_on("dgx-h100", 2, 4)};
  runs.steps[1].id = "second";
  CHECK_THROWS_WITH(fit_runs(runs),
                    "mine: second: /cluster/machine: 'dgx-h100' where the first row has "
                    "'dgx-a100-80gb'; a profile is of one machine: make a file for each");
}
