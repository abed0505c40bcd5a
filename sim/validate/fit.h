// Fits the constants of machine profiles to published measurements: constants of kernels for each
// kind of GPU, and constants of collectives for each kind of interconnect. All sources share one
// set of constants. No constant belongs to a source or a row.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "sim/planner/clusters.h"
#include "sim/validate/evidence.h"

namespace meshwright::sim {

// A number in profiles that a fit may change, in all machines whose name, or whose GPU's name,
// begins with one of `kinds`.
struct FittedConstant {
  std::string name;                // the name of the constant, such as "gemm"
  std::vector<std::string> kinds;  // empty: all machines
  double before = 0, after = 0;
  double rows = 0;    // number of rows that may depend on it
  bool held = false;  // whether it stays as in the profiles
  // Standard deviations of the constant's logarithm: assumed before any measurement, and left after
  // the rows are known (Laplace's approximation).
  double spread_before = 0, spread_after = 0;
};

struct FitOptions {
  // If set, the prior holds constants near those of the rows' machine (one machine for all rows)
  // instead of those from spec sheets, and every row has the same weight.
  bool near_profile = false;
  std::vector<std::string> leave_out;  // sources whose rows the fit ignores
  int iterations = 12;
  bool links_alone = false;  // fit constants of collectives only, to rows of collectives
  // For example "H100": fit only the constants of kernels of this kind of GPU.
  std::string kernels_of;
  MachineLoader load = load_known_machine;
  std::function<void(int iteration, double cost)> progress;
  // Called by any thread with the share of predictions that are done, among those that all
  // iterations would take. The last iterations are often not needed.
  std::function<void(double share)> watch;
};

struct Fit {
  std::vector<FittedConstant> constants;
  std::vector<std::string> sources;  // names of the sources that were used
  // The uncertainty of a row's prediction that is due to inexact constants, before and after the
  // fit: the standard deviation of the logarithm of the prediction, as root mean square over the
  // rows.
  double spread_before = 0, spread_after = 0;
  int rows = 0;
  bool links_alone = false;
};

// Fits the constants by least squares of log(predicted / measured) over the rows of training steps
// and collectives. The weights are chosen so that a row counts with the absolute value of its
// error, and, without `near_profile`, so that all sources count alike. Layouts of one question over
// several hosts count up to twice. A prior holds every constant near the value at which the fit
// starts, which is that from spec sheets without `near_profile`. The method is that of Levenberg
// and Marquardt, with differences for derivatives.
Fit fit_constants(std::span<const Evidence> evidence, const FitOptions& options);

// Returns the machine with the fit's constants. Constants that the fit held stay as they are. After
// a fit of links only, constants on which no row depends stay too.
Machine with_constants(Machine machine, const Fit& fit);

}  // namespace meshwright::sim
