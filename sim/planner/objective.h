// Says what a step time means for the job's objective: how good a plan is, how long a step may be,
// and what the whole job takes and costs.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/machine.h"
#include "models/job/job.h"
#include "sim/planner/start_of_run.h"

namespace meshwright::sim {

// Ranks a plan: a smaller `first` is better, and `then` decides between equals. Neither decreases
// if the step time grows, so the merit of a lower bound of the time is a lower bound of the merit.
struct Merit {
  double first = 0, then = 0;
  auto operator<=>(const Merit&) const = default;
};

Merit merit(const Objective& objective, const Cluster& cluster, double step_time_s);

// The longest step, in seconds, with which a plan keeps the objective's deadline and budget for the
// whole job (objective.tokens, or training.steps if they are not given), and what a longer step
// breaks. It is infinite if there is neither a deadline nor a budget, and 0 if there is a budget
// and no price.
struct StepLimit {
  double seconds = 0;
  std::string reason;
};
StepLimit longest_step(const Objective& objective, const Training& training,
                       const Cluster& cluster);

// Returns whether the job says how long it is: it gives steps or tokens, or asks for as many tokens
// as its deadline or budget allows.
bool has_length(const Job& job);

// The tokens, time and cost of a whole job. It has the steps of objective.tokens or of
// training.steps. If the objective is to maximize tokens, it has as many steps as the budget and
// the deadline allow.
struct WholeJob {
  double tokens = 0, time_s = 0;              // the time includes `start`
  StartOfRun start;                           // zero if it is not counted (least_share_of_start)
  std::optional<Bill> bill;                   // none: the machine has no such price
  int steps(const Training& training) const;  // number of steps, rounded up, at least 1
};
WholeJob whole_job(const Objective& objective, const Training& training, const Cluster& cluster,
                   double step_time_s, const StartOfRun& start = {});

}  // namespace meshwright::sim
