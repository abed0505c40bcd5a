#include "sim/planner/objective.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/core/error.h"
#include "sim/planner/rejections.h"

namespace meshwright::sim {

namespace {

constexpr double seconds_per_hour = 3600;

// Returns dollars per step. All plans have the job's global batch, so dollars per token have the
// same order. The result is infinite for machines without a price, which come last.
double usd_per_step(const Objective& objective, const Cluster& cluster, double step_time_s) {
  const std::optional<double> price = usd_per_hour(cluster, objective.price);
  if (!price) return std::numeric_limits<double>::infinity();
  return *price / seconds_per_hour * step_time_s;
}

// Returns the longest run, in seconds, that the budget pays for, or 0 without a price.
double affordable_time(const Objective& objective, const Cluster& cluster) {
  const Price* price = find_price(cluster.machine.prices, objective.price);
  return price == nullptr ? 0 : affordable_s(*price, cluster.hosts, *objective.budget_usd);
}

// Returns the longest run, in seconds, that the deadline and the budget allow.
double longest_run(const Objective& objective, const Cluster& cluster) {
  double seconds = objective.deadline_s.value_or(std::numeric_limits<double>::infinity());
  if (objective.budget_usd) seconds = std::min(seconds, affordable_time(objective, cluster));
  return seconds;
}

Merit by_time(const Objective&, const Cluster& cluster, double step_time_s) {
  return {step_time_s, static_cast<double>(cluster.ranks())};
}

Merit by_usd(const Objective& objective, const Cluster& cluster, double step_time_s) {
  return {usd_per_step(objective, cluster, step_time_s), step_time_s};
}

Merit by_gpus(const Objective&, const Cluster& cluster, double step_time_s) {
  return {static_cast<double>(cluster.ranks()), step_time_s};
}

// Compares plans by the share of the longest run that one step takes. A smaller share means more
// tokens.
Merit by_tokens(const Objective& objective, const Cluster& cluster, double step_time_s) {
  return {step_time_s / longest_run(objective, cluster), step_time_s};
}

struct Row {
  Minimize minimize;
  Merit (*merit)(const Objective&, const Cluster&, double step_time_s);
};
constexpr Row objectives[] = {{Minimize::step_time, by_time},
                              {Minimize::usd, by_usd},
                              {Minimize::usd_per_token, by_usd},
                              {Minimize::tokens, by_tokens},
                              {Minimize::gpus, by_gpus}};

double steps_of(const Objective& objective, const Training& training) {
  if (!objective.tokens) return training.steps;
  return *objective.tokens /
         (static_cast<double>(training.global_batch) * training.sequence_length);
}

}  // namespace

Merit merit(const Objective& objective, const Cluster& cluster, double step_time_s) {
  for (const Row& row : objectives)
    if (objective.minimize == row.minimize) return row.merit(objective, cluster, step_time_s);
  MESHWRIGHT_CHECK(false, "every objective has a row");
  return {};
}

StepLimit longest_step(const Objective& objective, const Training& training,
                       const Cluster& cluster) {
  const double steps = steps_of(objective, training);
  StepLimit limit{std::numeric_limits<double>::infinity(), ""};
  if (objective.deadline_s)
    limit = {*objective.deadline_s / steps, reasons::misses_deadline.statement};
  if (objective.budget_usd) {
    const double affordable = affordable_time(objective, cluster) / steps;
    if (affordable < limit.seconds) limit = {affordable, reasons::exceeds_budget.statement};
  }
  return limit;
}

bool has_length(const Job& job) {
  return job.has_steps || job.objective.tokens || job.objective.minimize == Minimize::tokens;
}

int WholeJob::steps(const Training& training) const {
  const double in_step = static_cast<double>(training.global_batch) * training.sequence_length;
  constexpr double most = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(std::ceil(tokens / in_step), 1.0, most));
}

WholeJob whole_job(const Objective& objective, const Training& training, const Cluster& cluster,
                   double step_time_s, const StartOfRun& start) {
  const double tokens_per_step =
      static_cast<double>(training.global_batch) * training.sequence_length;
  const bool is_most = objective.minimize == Minimize::tokens;
  double steps = is_most ? 1 / by_tokens(objective, cluster, step_time_s).first
                         : steps_of(objective, training);
  WholeJob whole;
  if (start.total_s() > least_share_of_start * steps * step_time_s) whole.start = start;
  // If tokens are maximized, time for the start leaves less time for steps.
  const double left_s = steps * step_time_s - whole.start.total_s();
  if (is_most && left_s <= 0)
    whole.start = {};
  else if (is_most && whole.start.total_s() > 0)
    steps = left_s / step_time_s;
  whole.tokens = steps * tokens_per_step;
  whole.time_s = steps * step_time_s + whole.start.total_s();
  if (const Price* price = find_price(cluster.machine.prices, objective.price))
    whole.bill = bill_of(*price, cluster.hosts, whole.time_s);
  return whole;
}

}  // namespace meshwright::sim
