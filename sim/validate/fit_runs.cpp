#include "sim/validate/fit_runs.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "models/core/error.h"
#include "sim/validate/case.h"
#include "sim/validate/score.h"

namespace meshwright::sim {

namespace {

// The spread (standard deviation of the logarithm) that remains if all constants are known: the
// error of the model itself, from sources with many rows.
constexpr double least_spread = 0.03;
constexpr double of_eight_in_ten = 1.2816;  // the normal distribution's 90th percentile

std::string only_machine_of(const Evidence& runs) {
  if (runs.steps.empty())
    throw InputError(runs.source + ": no measured steps; a row has a `job` and a `measured`");
  const std::string name = machine_of(runs.steps.front());
  for (const StepRow& row : runs.steps)
    if (machine_of(row) != name)
      throw InputError(runs.source + ": " + row.id + ": /cluster/machine: '" + machine_of(row) +
                       "' where the first row has '" + name +
                       "'; a profile is of one machine: make a file for each");
  return name;
}

bool on_many_hosts(const Evidence& runs, const MachineLoader& load) {
  return std::ranges::any_of(runs.steps, [&](const StepRow& row) {
    return case_of(row, load(machine_of(row))).cluster.hosts > 1;
  });
}

Residuals::Interval interval(double spread, double errors, int rows) {
  const double all =
      std::sqrt(spread * spread + std::max(errors * errors, least_spread * least_spread));
  return {std::exp(-of_eight_in_ten * all), std::exp(of_eight_in_ten * all), rows};
}

// Returns the root mean square of log(predicted / measured) after the fit.
double unexplained(std::span<const FittedRun> runs) {
  double sum = 0;
  for (const FittedRun& run : runs) sum += std::pow(std::log(run.after_s / run.measured_s), 2);
  return std::sqrt(sum / static_cast<double>(runs.size()));
}

// Sets the source of the blocks of a profile that a fit changes: efficiency and residuals.
void name_source(Machine& machine, const std::string& source) {
  for (const std::string block : {"efficiency", "residuals"}) {
    std::erase_if(machine.sources, [&](const auto& each) { return each.first == block; });
    machine.sources.emplace_back(block, source);
  }
}

}  // namespace

RunsFit fit_runs(const Evidence& runs, const MachineLoader& load,
                 const std::function<void(double share)>& watch) {
  RunsFit result;
  const Machine machine = load(only_machine_of(runs));
  const auto same = [&](const std::string&) { return machine; };
  FitOptions options;
  options.near_profile = true;
  options.load = same;
  options.watch = watch;
  result.fit = fit_constants(std::span(&runs, 1), options);
  result.machine = with_constants(machine, result.fit);
  const auto steps_with = [&](const Machine& each) {
    return score(std::span(&runs, 1), {}, [&](const std::string&) { return each; }).steps;
  };
  const auto before = steps_with(machine), after = steps_with(result.machine);
  for (std::size_t i = 0; i < before.size(); ++i)
    result.runs.push_back({before[i].id, before[i].measured_step_time_s,
                           before[i].predicted_step_time_s, after[i].predicted_step_time_s});
  const bool many_hosts = on_many_hosts(runs, same);
  const auto place = many_hosts ? &Residuals::many_hosts : &Residuals::one_host;
  result.before = machine.residuals && *machine.residuals.*place
                      ? *(*machine.residuals.*place)
                      : interval(result.fit.spread_before, least_spread, 0);
  result.after = interval(result.fit.spread_after, unexplained(result.runs),
                          static_cast<int>(result.runs.size()));
  if (!result.machine.residuals) result.machine.residuals.emplace();
  *result.machine.residuals.*place = result.after;
  name_source(result.machine, "meshwright fit on " + std::to_string(result.runs.size()) +
                                  " runs of " + runs.source);
  result.machine.calibration = Calibration::evidence;
  return result;
}

}  // namespace meshwright::sim
