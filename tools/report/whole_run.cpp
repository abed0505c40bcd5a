#include "tools/report/whole_run.h"

#include <fmt/format.h>

#include "models/core/json.h"
#include "tools/report/prediction.h"

namespace meshwright::tools {

std::optional<WholeJob> steps_in_a_row(const Job& job, const Training& training,
                                       const Cluster& cluster, double step_time_s) {
  if (!job.has_steps && !job.objective.tokens) return std::nullopt;
  Objective objective = job.objective;
  objective.minimize = Minimize::step_time;  // count only the job's tokens, not all that it can buy
  return JobOnCluster(objective, training, cluster, start_of_run(job, training, cluster))
      .whole(step_time_s);
}

json whole_run_json(const std::optional<WholeJob>& whole) {
  if (!whole) return nullptr;
  json value = {
      {"tokens", whole->tokens}, {"time_s", whole->time_s}, {"start_s", whole->start.total_s()}};
  value.update(bill_json(whole->bill));
  return value;
}

std::string start_text(const WholeJob& whole) {
  constexpr double least_share = 0.05;  // of the time of the steps
  const auto [hosts_s, weights_s] = whole.start;
  const double start_s = whole.start.total_s();
  if (start_s <= least_share * (whole.time_s - start_s)) return "";
  std::string parts;
  if (hosts_s > 0) parts = fmt::format("hosts {} (assumed)", show_duration(hosts_s));
  if (weights_s > 0)
    parts +=
        fmt::format("{}loading weights {}", parts.empty() ? "" : ", ", show_duration(weights_s));
  return fmt::format("start    {} included: {}\n", show_duration(start_s), parts);
}

std::string whole_run_text(const WholeJob& whole, const char* unit) {
  return fmt::format("run      {} {}   {}   {}\n", show_count(whole.tokens), unit,
                     show_duration(whole.time_s), bill_text(whole.bill)) +
         start_text(whole);
}

}  // namespace meshwright::tools
