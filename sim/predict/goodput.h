// Computes the goodput: the share of time that goes into steps that count, when hosts fail and a
// run falls back on its newest checkpoint.
//
// Failures come at exponentially distributed times, during restarts too. With M the mean time
// between failures of the whole cluster, R the restart, d the standstill for a checkpoint and no
// other work for it, a run that saves after every t seconds of steps reaches
//
//   t / (M exp(R / M) (exp((t + d) / M) - 1))
//
// (J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006,
// equation 13; J. W. Young 1974 has its first order, which is best at t = sqrt(2 d M)).
//
// Here training goes on while a copy is written, which takes w, and a save waits until the previous
// copy is written. The k-th checkpoint between two failures counts if the time between them is at
// least R + t + d + w + (k - 1) c, with c = max(t, w) + d the time from one checkpoint to the next.
// The sum over k gives
//
//   t exp(-(R + t + d + w) / M) / (M (1 - exp(-c / M))),
//
// which equals Daly's formula if w = 0.
#pragma once

#include <optional>

#include "sim/predict/cluster_failures.h"

namespace meshwright::sim {

struct FailureModel {
  // The mean time between those failures of the whole cluster that the model counts.
  double mean_time_between_failures_s = 0;
  double restart_s = 0;  // from such a failure until the steps go on
  double stall_s = 0;    // training stands still while the state is copied
  double write_s = 0;    // time to write the copy, while training goes on
};

// Returns the goodput, from 0 to 1, of a run that saves after every `interval_s` seconds of steps.
double goodput(const FailureModel& failures, double interval_s);

// Returns the interval, in seconds, at which goodput() is highest, to within rounding.
double best_interval_s(const FailureModel& failures);

// Returns the best interval as a number of steps of `step_time_s` seconds, at least 1.
int best_every_steps(const FailureModel& failures, double step_time_s);

// Combines several causes of failures into one model. The model's failures are those that leave no
// time for a checkpoint. Its restart R is the outage of all causes together per such failure,
// including the time of the checkpoints that are written in time. If there are any spare hosts, one
// is assumed to be there for every failure. With M the mean time between failures, exp(-R / M) is
// then the product of exp(-rate x outage) over the causes.
FailureModel failure_model(const ClusterFailures& failures);

// Return the goodput of a run on a cluster, or nothing if nothing fails. Checkpoints have
// `checkpoint_bytes`, or the bytes of those of a compiled plan, and are `every_steps` steps apart.
// The best interval is used if `every_steps` is 0, and always if checkpoints are copied to other
// hosts' memory.
std::optional<Goodput> goodput_of(double checkpoint_bytes, const Cluster& cluster, int every_steps,
                                  double step_time_s);
std::optional<Goodput> goodput_of(const Compiled& compiled, const Cluster& cluster, int every_steps,
                                  double step_time_s);

// Returns an upper bound of the goodput of all plans on the cluster. It assumes that checkpoints
// take no time and that no steps are lost, and is exp(-R / M). It is 1 if nothing fails.
double highest_goodput(const Cluster& cluster);

// Returns the seconds of a step, with its share of the time that failures cost, if the prediction
// has a goodput.
double useful_step_time_s(const Prediction& prediction);

}  // namespace meshwright::sim
