// Says what a step time means for a job on a cluster: how good a plan is, how long a step may be,
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

// The longest step, in seconds, with which a plan keeps the objective's deadline and budget for the
// whole job, and what a longer step breaks. It is infinite if there is neither a deadline nor a
// budget. It is 0 if there is a budget and no price, or if the start of the run alone takes too
// long.
struct StepLimit {
  double seconds = 0;
  std::string reason;
};

// Returns whether the job says how long it is: it gives steps or tokens, or asks for as many tokens
// as its deadline or budget allows.
bool has_length(const Job& job);

// The tokens, time and cost of a whole job.
struct WholeJob {
  double tokens = 0, time_s = 0;              // the time includes `start`
  StartOfRun start;                           // the hosts are paid from its beginning
  std::optional<Bill> bill;                   // none: the machine has no such price
  int steps(const Training& training) const;  // number of steps, rounded up, at least 1
};

// A job that runs on one cluster. It has the steps of objective.tokens or of training.steps, or, if
// the objective is to maximize tokens, as many as the budget and the deadline allow. This is the
// only place that adds the start of a run to its steps, so that ranks, limits and answers agree.
// All plans on a cluster start alike.
class JobOnCluster {
 public:
  // `training` says how many tokens a step has, and how many steps there are if the job does not
  // give tokens.
  JobOnCluster(const Job& job, const Training& training, const Cluster& cluster);
  JobOnCluster(const Objective& objective, const Training& training, const Cluster& cluster,
               const StartOfRun& start);

  Merit merit(double step_time_s) const;
  StepLimit longest_step() const;
  WholeJob whole(double step_time_s) const;

 private:
  double time_for_steps_s() const;

  Minimize minimize_;
  double tokens_per_step_ = 0;
  double steps_ = 0;  // unused if tokens are maximized
  int hosts_ = 1, ranks_ = 1;
  std::optional<Price> price_;
  StartOfRun start_;
  double deadline_s_ = 0;    // infinite if there is none
  double affordable_s_ = 0;  // the longest run that the budget pays for, infinite if there is none
};

}  // namespace meshwright::sim
