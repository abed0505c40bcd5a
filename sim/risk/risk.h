// How long a whole run takes and what it costs where hosts fail, as distributions: the run is
// played many times from the first step to the last, from failure to failure.
//
// Between two failures nothing is random: after every interval of steps a checkpoint is copied and
// written as goodput.h says. Failures of each cause come at exponentially distributed times, in
// restarts and while hosts are waited for too. A failure throws the run back to the newest
// checkpoint that is written; one with enough notice to a checkpoint that is written just in time,
// which begins stall_s + write_s before it. Then the failure is detected, the lost host is replaced
// (by a spare at once, where one stands by; each lost host is asked for when it is lost or its
// notice comes, and comes replacement_s later), and a restart follows; a failure in it begins it
// anew.
//
// Not modelled: hosts that fail together, checkpoints that fail with a host, degraded running with
// the hosts that are left. All hosts and spares are paid from the first step to the last.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/predict/cluster_failures.h"

namespace meshwright {

struct RunModel {
  ClusterFailures failures;
  double step_time_s = 0;
  double steps = 0;            // of the whole run
  int every_steps = 0;         // between checkpoints; 0: the best (goodput.h)
  int hosts = 1;               // without spares
  std::optional<Price> price;  // of one host
};

struct RiskOptions {
  int runs = 10000;
  std::uint64_t seed = 0;
  int threads = 1;  // any number gives the same
};

struct Spread {
  double p10 = 0, p50 = 0, p90 = 0, mean = 0;
};

// Shares of the wall time, over all runs; they add up to 1.
struct TimeShares {
  double steps = 1;        // that count
  double lost = 0;         // steps done again
  double checkpoints = 0;  // standing still for them
  double restarts = 0;     // detection included
  double waiting = 0;      // for hosts
};

struct CauseRisk {
  FailureCause cause = FailureCause::hardware;
  double failures = 0;  // in a run, on average
  double time_s = 0;    // that they cost a run: lost work and all until the steps go on
};

struct RunRisk {
  // Fewer than asked for where failures are many (about a second's work).
  int runs = 0;
  // False: the first run was given up after a million failures, or after a thousand times its work
  // and a restart. All below is empty then.
  bool finishes = true;
  Spread wall_s;
  std::optional<Spread> usd;  // none: no price
  double idle_usd = 0;        // of it, on average: for hours of a capacity block after the run
  TimeShares shares;
  std::vector<CauseRisk> causes;  // in the order of RunModel::failures.sources
  double failures = 0;            // in a run, on average
  int every_steps = 0;            // between checkpoints
};

// Same model, runs and seed: the same to the last bit. Times of failures depend on the seed and the
// rates alone, so runs with other intervals, spares or restarts meet the same ones.
RunRisk risk_of(const RunModel& model, const RiskOptions& options = {});

// What hosts that stand by save, on average of the same failures: those of the model against none;
// of a model without any one against none. Below 0: they cost more than they save.
struct SpareWorth {
  int spares = 0;
  double wall_s = 0;
  std::optional<double> usd;  // what the spares cost is taken off; none: no price
};
// `risk`: of the model with the same options. None where no cause loses a host, or the run does not
// finish.
std::optional<SpareWorth> spare_worth(const RunModel& model, const RunRisk& risk,
                                      const RiskOptions& options = {});

}  // namespace meshwright
