// Runs the command `scale JOB`, which predicts throughput, efficiency and cost on more and more
// GPUs.
#include "sim/planner/scale.h"
#include "models/core/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/choose.h"
#include "tools/session/elsewhere.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

json point_json(const Job& job, const ScalePoint& point) {
  const Prediction& p = point.plan.prediction;
  const auto& usd = point.usd_per_million_tokens;
  return {{"machine", point.machine},
          {"count", point.count},
          {"gpus", point.gpus},
          {"tokens_per_s", point.tokens_per_s},
          {"efficiency", point.efficiency},
          {"usd_per_million_tokens", usd ? json(*usd) : json(nullptr)},
          {"step_time_s", p.step_time_s},
          {"goodput", p.goodput ? json(p.goodput->share) : json(nullptr)},
          {"parallelism", to_json(point.plan.plan.parallelism)},
          {"frameworks", frameworks_that_run(point.plan.plan, job.model)}};
}

json result_json(const Job& job, const ScaleResult& result) {
  json points = json::array(), gaps = json::array();
  for (const ScalePoint& point : result.points) points.push_back(point_json(job, point));
  for (const ScaleGap& gap : result.gaps)
    gaps.push_back({{"machine", gap.machine}, {"count", gap.count}, {"reason", gap.reason}});
  return {{"points", points}, {"gaps", gaps}};
}

// Returns the table of all cluster sizes. It has a column for goodput if any prediction has a
// goodput.
Table table_of(const Job& job, const ScaleResult& result) {
  const bool failing = std::ranges::any_of(result.points, [](const ScalePoint& point) {
    return point.plan.prediction.goodput.has_value();
  });
  std::vector<std::string> head = {"cluster",  "GPUs",       "plan",      "step",
                                   "tokens/s", "efficiency", "$/M tokens"};
  if (failing) head.emplace_back("goodput");
  head.emplace_back("runs in");
  Table table(head);
  table.may_break("plan");
  table.may_lack({"tokens/s", "runs in", "$/M tokens"});
  for (const ScalePoint& point : result.points) {
    const Prediction& p = point.plan.prediction;
    std::vector<std::string> row = {
        fmt::format("{} x {}", point.count, point.machine),
        std::to_string(point.gpus),
        short_plan_text(point.plan.plan),
        show_seconds(p.step_time_s),
        show_number(point.tokens_per_s, 0),
        show_percent(point.efficiency),
        point.usd_per_million_tokens ? fmt::format("${:.4f}", *point.usd_per_million_tokens) : "-"};
    if (failing) row.push_back(p.goodput ? show_percent(p.goodput->share) : "-");
    row.push_back(runs_in(point.plan.plan, job.model));
    table.add(row);
  }
  return table;
}

struct Scaled {
  Job job;
  ScaleResult result;
};

Scaled scaled(const Options& options, const Watch& watch) {
  Job job = job_to_search(options, watch);
  ScaleOptions scale_options;
  scale_options.search.load = asked_machines(options, watch);
  check_region(job, scale_options.search.load);
  scale_options.search.watch = watch.search;
  scale_options.search.stop = watch.stop;
  scale_options.search.memory_margin = options.memory_margin.value_or(usual_memory_margin);
  ScaleResult result = scale(job, scale_options);
  return {std::move(job), std::move(result)};
}

int run_scale(const Options& options) {
  const auto [job, result] = scaled(options, printed_watch());
  if (options.json) {
    print_text(json_text(result_json(job, result), true));
    return result.points.empty() ? no_plan_fits : done;
  }
  print_to(stdout, "{}", table_of(job, result).text());
  for (const ScaleGap& gap : result.gaps)
    print_to(stdout, "{} x {}: no plan: {}\n", gap.count, gap.machine, gap.reason);
  return result.points.empty() ? no_plan_fits : done;
}

std::string answer_scale(const Options& options, const Watch& watch) {
  const auto [job, result] = scaled(options, watch);
  std::string answer = json_text(result_json(job, result), true);
  if (watch.stop && watch.stop()) throw StoppedSearch(std::move(answer));
  if (result.points.empty()) throw NoPlanFits("", answer);
  return answer;
}

}  // namespace

const Command scale_command = {
    "scale",
    "JOB",
    job_help,
    "throughput, efficiency and cost over more and more GPUs",
    "json wide model task tokens batch length on count set for by budget profile measure-afresh "
    "prices "
    "memory-margin",
    run_scale,
    "Plans the job on one host, two, four and so on, and prints throughput, efficiency and cost. "
    "Where the job says that hosts fail, it prints the goodput too.",
    answer_scale};

}  // namespace meshwright::tools
