// `simulate JOB`: predicts the time, memory and cost of a training step.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/core/error.h"
#include "sim/planner/objective.h"
#include "sim/replay/link_uses.h"
#include "sim/replay/stand_ins.h"
#include "sim/risk/whole_run.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/html.h"
#include "tools/report/prediction.h"
#include "tools/report/print_json.h"
#include "tools/report/risk.h"
#include "tools/report/search_watch.h"
#include "tools/report/step_report.h"
#include "tools/report/text.h"
#include "tools/report/timeline_view.h"
#include "tools/report/trace_files.h"
#include "tools/session/choose.h"
#include "tools/session/files_read.h"
#include "tools/session/machines.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

// Writes the predicted timeline to the file of --trace. A Chrome trace shows one rank for each
// group of equal ranks that were simulated as one. Chakra's files are written for every rank, from
// the entries of the rank that stands in for it.
void write_trace(const Options& options, const Timeline& timeline, const Compiled& compiled,
                 const Cluster& cluster) {
  if (trace_format(options) == TraceFormat::chakra) {
    write_chakra(options.trace, timeline, compiled.stages, stand_ins(compiled.stages, cluster));
    return;
  }
  const Mesh mesh = compiled.stages.front().settings->mesh();
  write_file(options.trace,
             to_chrome_trace(timeline, compiled.stages, stages_of_ranks(compiled.stages),
                             link_uses(timeline, compiled.stages, mesh, Topology(cluster))));
}

// Returns the whole job without failures, all steps one after the other, or nothing if the job
// gives neither a number of steps nor of tokens.
std::optional<WholeJob> steps_in_a_row(const Job& job, const Chosen& chosen,
                                       const Prediction& prediction) {
  if (!job.has_steps && !job.objective.tokens) return std::nullopt;
  Objective objective = job.objective;
  objective.minimize = Minimize::step_time;  // tokens are those of the job, not all that it can buy
  return whole_job(objective, chosen.compiled.plan.training, chosen.cluster,
                   prediction.step_time_s);
}

nlohmann::json whole_run_json(const Job& job, const Chosen& chosen, const Prediction& prediction) {
  const auto whole = steps_in_a_row(job, chosen, prediction);
  if (!whole) return nullptr;
  nlohmann::json value = {{"tokens", whole->tokens}, {"time_s", whole->time_s}};
  value.update(bill_json(whole->bill));
  return value;
}

std::string whole_run_text(const WholeJob& whole) {
  return fmt::format("run      {} tokens   {}   {}\n", show_count(whole.tokens),
                     show_duration(whole.time_s), bill_text(whole.bill));
}

int run_simulate(const Options& options) {
  const Job job = read_job_of(options);
  const std::vector<std::string> inputs = files_read(options, job);
  check_trace(options, inputs);
  check_writable("--report", options.report, inputs);
  check_writable("--timeline", options.timeline, inputs);
  const Chosen chosen = choose_plan(job, machine_loader(options), search_watch(options));
  Timeline timeline;
  const bool drawn = !options.trace.empty() || !options.report.empty() || !options.timeline.empty();
  const Prediction prediction = predict_chosen(job, chosen, drawn ? &timeline : nullptr);
  const std::vector<StageBreakdown> stages = breakdown(prediction);
  if (!options.trace.empty()) write_trace(options, timeline, chosen.compiled, chosen.cluster);
  if (!options.timeline.empty())
    write_file(options.timeline, timeline_data(timeline, chosen.compiled.stages));
  if (!options.report.empty()) {
    HtmlPage page(job.name + ": prediction");
    add_prediction(page, job.model, chosen.compiled, chosen.cluster, prediction);
    add_step(page, chosen.compiled, prediction, stages, timeline);
    write_file(options.report, page.text());
  }
  const int steps = options.steps.value_or(1);
  const std::optional<WholeRun> run = whole_run(job, chosen.compiled, chosen.cluster, prediction);
  if (options.json) {
    nlohmann::json value = prediction_json(prediction);
    value["stages"] = breakdown_json(stages);
    for (std::size_t i = 0; i < chosen.compiled.stages.size(); ++i)
      value["memory"][i]["peak_tensors"] = peak_tensors_json(chosen.compiled.stages[i]);
    value["name"] = job.name;
    value["machine"] = chosen.machine;
    value["count"] = chosen.count;
    value["steps"] = steps;
    value["total_time_s"] = steps * prediction.step_time_s;
    value["price"] = price_json(prediction.price, options.today);
    value["whole_run"] = whole_run_json(job, chosen, prediction);
    value["risk"] = run ? risk_json(run->model, run->risk, run->spare) : nlohmann::json(nullptr);
    value["parallelism"] = to_json(chosen.compiled.plan.parallelism);
    value["training"] = to_json(chosen.compiled.plan.training);
    print_json(value);
    return done;
  }
  print_to(stdout, "{}",
           prediction_text(job.model, chosen.compiled, chosen.cluster, prediction, options.today));
  if (const auto whole = steps_in_a_row(job, chosen, prediction))
    print_to(stdout, "\n{}", whole_run_text(*whole));
  if (run) print_to(stdout, "{}", risk_text(run->model, run->risk, run->spare));
  if (steps > 1)
    std::printf("\n%d steps  %s\n", steps, show_seconds(steps * prediction.step_time_s).c_str());
  return done;
}

}  // namespace

const Command simulate_command = {
    "simulate",
    "JOB",
    job_help,
    "predict a training step: time, memory, cost",
    "json set profile prices trace trace-format report timeline steps watched",
    run_simulate,
    "Predicts the time of a step, memory stage by stage, and cost. Where the job says that hosts "
    "fail, it predicts how long the whole run takes and what it costs. It plans first where the "
    "job says \"auto\"."};

}  // namespace meshwright
