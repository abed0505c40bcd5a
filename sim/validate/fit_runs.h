// Fits the constants of one machine to steps that its owner measured, as few as one. The constants
// of its profile are what is assumed before, and they move as far as the steps call for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/validate/fit.h"

namespace meshwright::sim {

struct FittedRun {
  std::string id;
  double measured_s = 0, before_s = 0, after_s = 0;  // step times: measured, predicted
};

struct RunsFit {
  Machine machine;  // with the constants; its `residuals` hold `after`
  Fit fit;
  std::vector<FittedRun> runs;
  // The interval of measured / predicted step time, with the profile's constants (`before`) and
  // with the fitted ones (`after`). 8 of 10 steps on one host, or on several if a run has several,
  // are expected to lie in it.
  Residuals::Interval before, after;
};

// Fits the constants to `runs`, which must hold steps, all on one machine. Throws InputError if it
// holds none, or steps on several machines.
RunsFit fit_runs(const Evidence& runs, const MachineLoader& load = load_known_machine,
                 const std::function<void(double share)>& watch = {});  // FitOptions::watch

}  // namespace meshwright::sim
