// `scale JOB`: what more GPUs bring.
#include "sim/planner/scale.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/machines.h"
#include "tools/report/prediction.h"
#include "tools/report/print_json.h"
#include "tools/report/text.h"

namespace meshwright {

int run_scale(const Options& options) {
  const Job job = read_job_of(options);
  ScaleOptions scale_options;
  scale_options.search.load = machine_loader(options);
  const ScaleResult result = scale(job, scale_options);
  if (options.json) {
    nlohmann::json points = nlohmann::json::array(), gaps = nlohmann::json::array();
    for (const ScalePoint& point : result.points)
      points.push_back(
          {{"machine", point.machine},
           {"count", point.count},
           {"gpus", point.gpus},
           {"tokens_per_s", point.tokens_per_s},
           {"efficiency", point.efficiency},
           {"usd_per_million_tokens", point.usd_per_million_tokens
                                          ? nlohmann::json(*point.usd_per_million_tokens)
                                          : nlohmann::json(nullptr)},
           {"step_time_s", point.plan.prediction.step_time_s},
           {"parallelism", to_json(point.plan.plan.parallelism)}});
    for (const ScaleGap& gap : result.gaps)
      gaps.push_back({{"machine", gap.machine}, {"count", gap.count}, {"reason", gap.reason}});
    print_json({{"points", points}, {"gaps", gaps}});
    return result.points.empty() ? no_plan_fits : done;
  }
  Table table({"cluster", "GPUs", "plan", "step", "tokens/s", "efficiency", "$/M tokens"});
  for (const ScalePoint& point : result.points)
    table.add({fmt::format("{} x {}", point.count, point.machine), std::to_string(point.gpus),
               short_plan_text(point.plan.plan), show_seconds(point.plan.prediction.step_time_s),
               show_number(point.tokens_per_s, 0), show_percent(point.efficiency),
               point.usd_per_million_tokens ? fmt::format("${:.4f}", *point.usd_per_million_tokens)
                                            : "-"});
  std::printf("%s", table.text().c_str());
  for (const ScaleGap& gap : result.gaps)
    std::printf("%d x %s: no plan: %s\n", gap.count, gap.machine.c_str(), gap.reason.c_str());
  return result.points.empty() ? no_plan_fits : done;
}

}  // namespace meshwright
