// Derives the constants of machine profiles from published measurements: those of the kernels for
// each kind of GPU, those of collectives for each kind of interconnect. One set for all sources;
// no constant belongs to a source or a row.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "sim/planner/clusters.h"
#include "sim/validate/evidence.h"

namespace meshwright {

// A number of the profiles that a fit may change, in all machines whose GPU's (or own) name begins
// with one of `kinds`.
struct FittedConstant {
  std::string name;                // "A100 gemm"
  std::vector<std::string> kinds;  // none: all machines
  double before = 0, after = 0;
  double rows = 0;    // that may depend on it
  bool held = false;  // it stays as the profiles have it
  // Standard deviations of its logarithm: what is held likely before any measurement, and what the
  // rows leave of it (Laplace's approximation).
  double spread_before = 0, spread_after = 0;
};

struct FitOptions {
  // Constants are held near those of the rows' machine (all of one) instead of those from spec
  // sheets, and every row counts alike.
  bool near_profile = false;
  std::vector<std::string> leave_out;  // sources that the fit does not see
  int iterations = 12;
  bool links_alone = false;  // to collectives; what kernels take stays as the profiles have it
  std::string kernels_of;    // "H100": to steps, the constants of this kind of GPU alone
  MachineLoader load = load_known_machine;
  std::function<void(int iteration, double cost)> progress;
  // The share of the predictions that all iterations would take; the last ones are often not
  // needed. Any thread calls it.
  std::function<void(double share)> watch;
};

struct Fit {
  std::vector<FittedConstant> constants;
  std::vector<std::string> sources;  // that were used
  // How far off a row's prediction may be because constants are not known better, as the standard
  // deviation of its logarithm: the root mean square over the rows.
  double spread_before = 0, spread_after = 0;
  int rows = 0;
  bool links_alone = false;
};

// Least squares of log(predicted / measured) over the rows of training steps and collectives,
// weighted such that a row counts with the absolute value of its error, and each source like any
// other, but that layouts of one question over several hosts count up to twice; every constant is
// held near its value from spec sheets by a prior, so that the result does not depend on the
// profiles.
// Levenberg and Marquardt's method with differences for derivatives.
Fit fit_constants(std::span<const Evidence> evidence, const FitOptions& options);

// The machine with the fit's constants.
Machine with_constants(Machine machine, const Fit& fit);

}  // namespace meshwright
