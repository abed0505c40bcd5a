#include "sim/planner/objective.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/core/error.h"
#include "sim/planner/rejections.h"

namespace meshwright::sim {

namespace {

constexpr double endless = std::numeric_limits<double>::infinity();
constexpr double seconds_per_hour = 3600;

std::optional<Price> price_of(const Objective& objective, const Cluster& cluster) {
  const Price* price = find_price(cluster.machine.prices, objective.price);
  return price == nullptr ? std::nullopt : std::optional(*price);
}

}  // namespace

bool has_length(const Job& job) {
  return job.has_steps || job.objective.tokens || job.objective.minimize == Minimize::tokens;
}

int WholeJob::steps(const Training& training) const {
  const double in_step = static_cast<double>(training.global_batch) * training.sequence_length;
  constexpr double most = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(std::ceil(tokens / in_step), 1.0, most));
}

JobOnCluster::JobOnCluster(const Job& job, const Training& training, const Cluster& cluster)
    : JobOnCluster(job.objective, training, cluster, start_of_run(job, training, cluster)) {}

JobOnCluster::JobOnCluster(const Objective& objective, const Training& training,
                           const Cluster& cluster, const StartOfRun& start)
    : minimize_(objective.minimize),
      tokens_per_step_(static_cast<double>(training.global_batch) * training.sequence_length),
      steps_(objective.tokens ? *objective.tokens / tokens_per_step_ : training.steps),
      hosts_(cluster.hosts),
      ranks_(cluster.ranks()),
      price_(price_of(objective, cluster)),
      start_(start),
      deadline_s_(objective.deadline_s.value_or(endless)),
      affordable_s_(!objective.budget_usd ? endless
                    : price_ ? affordable_s(*price_, cluster.hosts, *objective.budget_usd)
                             : 0) {}

// Returns the longest time that the deadline and the budget leave for steps, in seconds.
double JobOnCluster::time_for_steps_s() const {
  return std::max(0.0, std::min(deadline_s_, affordable_s_) - start_.total_s());
}

// Counts each step with its share of the start, so that merits are comparable between clusters. All
// plans have the job's global batch, so dollars per token have the order of dollars per step. They
// are infinite for machines without a price, which come last.
Merit JobOnCluster::merit(double step_time_s) const {
  const double time_s = step_time_s + start_.total_s() / steps_;
  switch (minimize_) {
    case Minimize::step_time:
      return {time_s, static_cast<double>(ranks_)};
    case Minimize::usd:
    case Minimize::usd_per_token:
      return {price_ ? price_->usd_per_hour * hosts_ / seconds_per_hour * time_s : endless, time_s};
    case Minimize::tokens:  // fewer steps fit if each takes a larger share of the time for steps
      return {step_time_s / time_for_steps_s(), step_time_s};
    case Minimize::gpus:
      return {static_cast<double>(ranks_), time_s};
  }
  MESHWRIGHT_CHECK(false, "every objective has a case");
  return {};
}

StepLimit JobOnCluster::longest_step() const {
  const double steps = minimize_ == Minimize::tokens ? 1 : steps_;
  StepLimit limit{time_for_steps_s() / steps, ""};
  if (affordable_s_ < deadline_s_)
    limit.reason = reasons::exceeds_budget.statement;
  else if (deadline_s_ < endless)
    limit.reason = reasons::misses_deadline.statement;
  return limit;
}

WholeJob JobOnCluster::whole(double step_time_s) const {
  const double steps = minimize_ == Minimize::tokens ? time_for_steps_s() / step_time_s : steps_;
  WholeJob whole;
  whole.tokens = steps * tokens_per_step_;
  whole.time_s = steps * step_time_s + start_.total_s();
  whole.start = start_;
  if (price_) whole.bill = bill_of(*price_, hosts_, whole.time_s);
  return whole;
}

}  // namespace meshwright::sim
