// Predicts how long a whole run takes and what it costs if hosts fail, as distributions. The run is
// simulated many times from the first step to the last, from failure to failure.
//
// Between two failures nothing is random: after every interval of steps, a checkpoint is copied and
// written as goodput.h describes. Failures of each cause come at exponentially distributed times,
// also in restarts and while the run waits for hosts. A failure throws the run back to the newest
// checkpoint that is written. A failure with enough notice throws it back to a checkpoint that is
// written just in time, which begins stall_s + write_s before it. Then the failure is detected, the
// lost host is replaced, and a restart follows. A spare replaces the host at once, if there is one.
// Each lost host is requested when it is lost or its notice comes, and arrives replacement_s later.
// A failure during a restart begins it anew.
//
// Not modelled: hosts that fail together, checkpoints that fail with a host, degraded running with
// the remaining hosts. All hosts and spares are paid from the first step to the last.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/predict/cluster_failures.h"

namespace meshwright::sim {

struct RunModel {
  ClusterFailures failures;
  double step_time_s = 0;
  double steps = 0;            // number of steps of the whole run
  int every_steps = 0;         // steps between checkpoints; 0: the best number (goodput.h)
  int hosts = 1;               // number of hosts without spares
  std::optional<Price> price;  // price of one host; none: it is not known
};

struct RiskOptions {
  int runs = 10000;
  std::uint64_t seed = 0;
  int threads = 1;  // any number of threads gives the same result
};

struct Spread {
  double p10 = 0, p50 = 0, p90 = 0, mean = 0;
};

// Shares of the wall time of all runs. They add up to 1.
struct TimeShares {
  double steps = 1;        // share of steps that count
  double lost = 0;         // share of steps that are done again
  double checkpoints = 0;  // share in which training stands still for checkpoints
  double restarts = 0;     // share of detection of failures and of restarts
  double waiting = 0;      // share of waiting for hosts
};

struct CauseRisk {
  FailureCause cause = FailureCause::hardware;
  double failures = 0;  // mean number of failures in a run
  // Mean seconds that they cost a run: lost work, and all time until steps go on.
  double time_s = 0;
};

struct RunRisk {
  // Number of simulated runs. It is less than requested, but at least 100 if so many are requested,
  // if there are so many failures that the simulation would take longer than about a second.
  int runs = 0;
  // False means that a run was given up after a million failures, or after a thousand times its
  // work, a restart and a replacement together. Then only `every_steps` is set among the fields
  // below.
  bool finishes = true;
  Spread wall_s;
  std::optional<Spread> usd;  // costs; none if the price is not known
  double idle_usd = 0;        // mean part of it for hours of a capacity block after the run
  TimeShares shares;
  std::vector<CauseRisk> causes;  // in the order of RunModel::failures.sources
  double failures = 0;            // mean number of failures in a run
  int every_steps = 0;            // steps between checkpoints
};

// Returns the distributions for a run. The same model, runs and seed give the same result bit by
// bit. The times of failures depend only on the seed and the rates, so runs with other intervals,
// spares or restarts have the same failures.
RunRisk risk_of(const RunModel& model, const RiskOptions& options = {});

// The value of spare hosts: the mean difference between runs without and with them, under the same
// failures. It compares the spares of the model with none, or one spare with none if the model has
// none. Values below 0 mean that the spares cost more than they save.
struct SpareWorth {
  int spares = 0;
  double wall_s = 0;
  std::optional<double> usd;  // the price of the spares is subtracted; none: the price is not known
};
// Returns the value of spare hosts. `risk` is the risk of the model with the same options. Returns
// none if no cause loses a host, or if a run does not finish.
std::optional<SpareWorth> spare_worth(const RunModel& model, const RunRisk& risk,
                                      const RiskOptions& options = {});

}  // namespace meshwright::sim
