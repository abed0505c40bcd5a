// The constants of one machine from the measured steps of whoever has it, as few as one: those of
// its profile are what is believed before, and move as far as the steps call for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/validate/fit.h"

namespace meshwright {

struct FittedRun {
  std::string id;
  double measured_s = 0, before_s = 0, after_s = 0;  // step times: measured, predicted
};

struct RunsFit {
  Machine machine;  // with the constants; its `residuals` hold `after`
  Fit fit;
  std::vector<FittedRun> runs;
  // The interval of measured / predicted step time, by the profile's constants and by the fitted
  // ones: 8 of 10 steps on as many hosts (one, or several) are expected to lie in it.
  Residuals::Interval before, after;
};

// `runs` has steps, all on one machine; else InputError.
RunsFit fit_runs(const Evidence& runs, const MachineLoader& load = load_known_machine,
                 const std::function<void(double share)>& watch = {});  // FitOptions::watch

}  // namespace meshwright
