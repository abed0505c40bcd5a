// Derives the constants of machine profiles from published measurements: constants of kernels for
// each kind of GPU, and constants of collectives for each kind of interconnect. All sources share
// one set of constants. No constant belongs to a source or a row.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "sim/planner/clusters.h"
#include "sim/validate/evidence.h"

namespace meshwright::sim {

// A number of the profiles that a fit may change, in all machines whose name, or whose GPU's name,
// begins with one of `kinds`.
struct FittedConstant {
  std::string name;                // "A100 gemm"
  std::vector<std::string> kinds;  // none: all machines
  double before = 0, after = 0;
  double rows = 0;    // that may depend on it
  bool held = false;  // it stays as the profiles have it
  // Standard deviations of the constant's logarithm: assumed before any measurement, and left after
  // the rows are known (Laplace's approximation).
  double spread_before = 0, spread_after = 0;
};

struct FitOptions {
  // If set, constants are held near those of the rows' machine (one machine for all rows) instead
  // of those from spec sheets, and every row has the same weight.
  bool near_profile = false;
  std::vector<std::string> leave_out;  // sources that the fit does not see
  int iterations = 12;
  bool links_alone = false;  // to collectives; what kernels take stays as the profiles have it
  std::string kernels_of;    // "H100": to steps, the constants of this kind of GPU alone
  MachineLoader load = load_known_machine;
  std::function<void(int iteration, double cost)> progress;
  // Called with the share of predictions that are done, of those that all iterations would take.
  // The last iterations are often not needed. Any thread calls it.
  std::function<void(double share)> watch;
};

struct Fit {
  std::vector<FittedConstant> constants;
  std::vector<std::string> sources;  // that were used
  // The uncertainty of a row's prediction that is due to inexact constants, before and after the
  // fit: the standard deviation of the prediction's logarithm, as root mean square over the rows.
  double spread_before = 0, spread_after = 0;
  int rows = 0;
  bool links_alone = false;
};

// Fits the constants by least squares of log(predicted / measured) over the rows of training steps
// and collectives. The weights make a row count with the absolute value of its error, and all
// sources count alike, except that layouts of one question over several hosts count up to twice. A
// prior holds every constant near its value from spec sheets, so that the result does not depend on
// the profiles. The method is Levenberg and Marquardt's, with differences for derivatives.
Fit fit_constants(std::span<const Evidence> evidence, const FitOptions& options);

// Returns the machine with the fit's constants. Constants that the fit held stay as they are, and
// after a fit to links only, so do constants that no row depends on.
Machine with_constants(Machine machine, const Fit& fit);

}  // namespace meshwright::sim
