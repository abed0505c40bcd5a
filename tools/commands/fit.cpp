// Runs the command `fit --runs FILE --output PROFILE`, which writes a copy of a machine's profile.
// Its constants are moved to agree with measured steps.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "exec/launch/stop.h"
#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "sim/validate/fit_runs.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/progress.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

constexpr double worth_saying = 0.01;  // least relative change of a constant that is shown
// Runs say little about a constant if spread_after / spread_before exceeds this share.
constexpr double learned = 0.8;

bool moved(const FittedConstant& constant) {
  return constant.before > 0 && std::abs(constant.after / constant.before - 1) >= worth_saying;
}

json spread_json(const Residuals::Interval& interval) {
  return {{"low", interval.low}, {"high", interval.high}, {"rows", interval.rows}};
}

json json_of(const RunsFit& result, const std::string& output) {
  json runs = json::array(), constants = json::array();
  for (const FittedRun& run : result.runs)
    runs.push_back({{"id", run.id},
                    {"measured_step_time_s", run.measured_s},
                    {"before_step_time_s", run.before_s},
                    {"after_step_time_s", run.after_s}});
  for (const FittedConstant& constant : result.fit.constants)
    if (constant.rows > 0 && constant.before > 0)
      constants.push_back({{"name", constant.name},
                           {"before", constant.before},
                           {"after", constant.after},
                           {"spread_before", constant.spread_before},
                           {"spread_after", constant.spread_after}});
  return {{"machine", result.machine.name},
          {"profile", output},
          {"runs", std::move(runs)},
          {"constants", std::move(constants)},
          {"interval_before", spread_json(result.before)},
          {"interval_after", spread_json(result.after)}};
}

std::string off_by(double predicted, double measured) {
  return fmt::format("{:+.1f} %", (predicted / measured - 1) * 100);
}

void say_runs(const RunsFit& result) {
  Table table({"run", "measured", "before", "error", "after", "error"});
  for (const FittedRun& run : result.runs)
    table.add({run.id, show_seconds(run.measured_s), show_seconds(run.before_s),
               off_by(run.before_s, run.measured_s), show_seconds(run.after_s),
               off_by(run.after_s, run.measured_s)});
  print_to(stdout, "{}", table.text());
}

void say_constants(const RunsFit& result) {
  Table table({"constant", "before", "after", "still uncertain by"});
  std::string unknown;
  for (const FittedConstant& constant : result.fit.constants) {
    if (constant.before <= 0) continue;
    if (moved(constant))
      table.add({constant.name, fmt::format("{:.4g}", constant.before),
                 fmt::format("{:.4g}", constant.after),
                 fmt::format("{:.0f} %", constant.spread_after * 100)});
    const bool says_little =
        constant.rows > 0 && constant.spread_after > learned * constant.spread_before;
    if (says_little) unknown += (unknown.empty() ? "" : ", ") + constant.name;
  }
  print_to(stdout, "\n{}", table.text());
  if (!unknown.empty()) print_to(stdout, "\nThese runs say little about: {}\n", unknown);
}

std::string show(const Residuals::Interval& interval) {
  return fmt::format("{:+.0f} % to {:+.0f} %", (interval.low - 1) * 100, (interval.high - 1) * 100);
}

// Fits the profile and writes it. `progress` is called with the share that is done, 0 to 1. Throws
// InputError if --runs or --output is missing.
RunsFit fitted(const Options& options, const Watch& watch,
               const std::function<void(double share)>& progress) {
  if (options.runs.empty())
    throw InputError(
        "fit: --runs names the file of measured steps, in the form of scenarios/evidence/*.json");
  if (options.output.empty()) throw InputError("fit: --output names the profile to write");
  check_writable("--output", options.output, std::vector{options.runs, options.profile});
  RunsFit result = fit_runs(read_evidence(options.runs), asked_machines(options, watch), progress);
  write_machine(result.machine, options.output);
  return result;
}

int run_fit(const Options& options) {
  std::optional<ProgressLine> line(std::in_place);
  const RunsFit result =
      fitted(options, printed_watch(), [&](double share) { line->at(share, "fit"); });
  line.reset();
  if (options.json) {
    print_text(json_text(json_of(result, options.output), true));
    return done;
  }
  say_runs(result);
  say_constants(result);
  print_to(stdout,
           "\nEight of ten measured steps like these lie within {} of the prediction; before, "
           "within {}.\nwrote {}; use it with --profile {}\n",
           show(result.after), show(result.before), options.output, options.output);
  return done;
}

std::string answer_fit(const Options& options, const Watch& watch) {
  const RunsFit result = fitted(options, watch, [&](double) {
    if (watch.stop && watch.stop()) throw StopRequested();
  });
  return json_text(json_of(result, options.output), true);
}

}  // namespace

const Command fit_command = {
    "fit",
    "",
    "",
    "a machine's profile from your own measured steps",
    "json wide profile runs output",
    run_fit,
    "Moves the constants of a machine's profile as far as your measured steps call for, and writes "
    "a copy. It prints each run before and after, which constants moved, and the new interval. One "
    "run is enough to begin with (docs/accuracy.md).",
    answer_fit};

}  // namespace meshwright::tools
