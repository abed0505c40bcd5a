// Fits the constants of one machine to steps that its owner measured, even to a single one. The
// constants of its profile are the prior, and they change as far as the steps require.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/validate/fit.h"

namespace meshwright::sim {

struct FittedRun {
  std::string id;
  // Step times: measured, and predicted with the constants before and after the fit.
  double measured_s = 0, before_s = 0, after_s = 0;
};

struct RunsFit {
  Machine machine;  // with the fitted constants; its `residuals` hold `after`
  Fit fit;
  std::vector<FittedRun> runs;
  // The interval of measured / predicted step time, with the profile's constants (`before`) and
  // with the fitted ones (`after`). 8 of 10 steps on one host are expected to be in it, or 8 of 10
  // on several hosts if one of the runs has several.
  Residuals::Interval before, after;
};

// Fits the constants to `runs`, which must hold steps, all on one machine. Throws InputError if it
// holds none, or steps on several machines.
RunsFit fit_runs(const Evidence& runs, const MachineLoader& load = load_known_machine,
                 const std::function<void(double share)>& watch = {});  // FitOptions::watch

}  // namespace meshwright::sim
