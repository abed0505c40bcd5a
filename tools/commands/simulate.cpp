// Runs the command `simulate JOB`, which predicts the time, memory and cost of a training step.
#include <fmt/format.h>

#include <cstdio>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/program/program_json.h"
#include "sim/replay/link_uses.h"
#include "sim/replay/stand_ins.h"
#include "sim/risk/whole_run.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/recorded_operand.h"
#include "tools/print.h"
#include "tools/report/html.h"
#include "tools/report/loading.h"
#include "tools/report/prediction.h"
#include "tools/report/risk.h"
#include "tools/report/run_report.h"
#include "tools/report/step_report.h"
#include "tools/report/timeline_view.h"
#include "tools/report/trace_files.h"
#include "tools/report/whole_run.h"
#include "tools/session/choose.h"
#include "tools/session/job_file.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

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

std::optional<WholeJob> whole_run_of(const Job& job, const Chosen& chosen,
                                     const Prediction& prediction) {
  return steps_in_a_row(job, chosen.compiled.plan.training, chosen.cluster, prediction.step_time_s);
}

struct Simulated {
  Job job;
  Chosen chosen;
  Prediction prediction;
  std::vector<StageBreakdown> stages;
  std::optional<WholeRun> run;
};

// Predicts the step, and writes the files that the options name.
Simulated simulated(const Options& options, const Watch& watch) {
  Simulated all;
  all.job = job_to_predict(options, watch);
  const std::vector<std::string> inputs = inputs_of(options, all.job);
  check_trace(options, inputs);
  check_writable("--report", options.report, inputs);
  check_writable("--timeline", options.timeline, inputs);
  check_writable("--write", options.write, inputs);
  all.chosen = choose_plan(all.job, asked_machines(options, watch), watch);
  tell_defaults(all.job, all.chosen, watch);
  if (!options.programs.empty())
    take_programs(all.chosen, read_programs(read_json_file(options.programs)), options.programs);
  const Compiled& compiled = all.chosen.compiled;
  Timeline timeline;
  const bool drawn = !options.trace.empty() || !options.report.empty() || !options.timeline.empty();
  all.prediction = predict_chosen(all.job, all.chosen, drawn ? &timeline : nullptr);
  all.stages = breakdown(all.prediction);
  all.run = whole_run(all.job, compiled, all.chosen.cluster, all.prediction);
  if (!options.trace.empty()) write_trace(options, timeline, compiled, all.chosen.cluster);
  if (!options.timeline.empty())
    write_file(options.timeline, timeline_data(timeline, compiled.stages));
  if (!options.report.empty()) {
    HtmlPage page(all.job.name + ": prediction");
    add_prediction(page, all.job.model, compiled, all.chosen.cluster, all.prediction);
    add_whole_run(page, all.job, compiled.plan.training, all.chosen.cluster, all.prediction,
                  all.run);
    add_step(page, compiled, all.prediction, all.stages, timeline);
    write_file(options.report, page.text());
  }
  if (!options.write.empty()) {
    write_job_file(all.job, compiled.plan, all.chosen.machine, all.chosen.count, options.write);
    watch.note("wrote " + options.write);
  }
  return all;
}

std::string json_of(const Options& options, const Simulated& all) {
  const auto& [job, chosen, prediction, stages, run] = all;
  const int steps = options.steps.value_or(1);
  json value = prediction_json(prediction);
  value["stages"] = breakdown_json(stages);
  value["cuts"] = cuts_json(chosen.compiled.stages);
  for (std::size_t i = 0; i < chosen.compiled.stages.size(); ++i)
    value["memory"][i]["peak_tensors"] =
        peak_tensors_json(chosen.compiled.stages[i], prediction.memory[i]);
  value["name"] = job.name;
  value["machine"] = chosen.machine;
  value["count"] = chosen.count;
  value["steps"] = steps;
  value["total_time_s"] = steps * prediction.step_time_s;
  value["price"] = price_json(prediction.price, options.today);
  value["whole_run"] = whole_run_json(whole_run_of(job, chosen, prediction));
  value["loading"] = loading_json(job, chosen.compiled.plan, chosen.cluster, prediction);
  value["risk"] = run ? risk_json(run->model, run->risk, run->spare) : json(nullptr);
  value["parallelism"] = to_json(chosen.compiled.plan.parallelism);
  value["training"] = to_json(chosen.compiled.plan.training);
  return json_text(value, true);
}

void print_simulated(const Options& options, const Simulated& all) {
  const auto& [job, chosen, prediction, stages, run] = all;
  print_to(stdout, "{}",
           prediction_text(job.model, chosen.compiled, chosen.cluster, prediction, options.today));
  print_to(stdout, "{}", loading_text(job, chosen.compiled.plan, chosen.cluster, prediction));
  if (const auto whole = whole_run_of(job, chosen, prediction))
    print_to(stdout, "\n{}", whole_run_text(*whole));
  if (run) print_to(stdout, "{}", risk_text(run->model, run->risk, run->spare));
  const int steps = options.steps.value_or(1);
  if (steps > 1)
    print_to(stdout, "\n{} steps  {}\n", steps, show_seconds(steps * prediction.step_time_s));
}

int run_simulate(const Options& options) {
  if (names_recording(options)) return run_recorded(options);
  const Simulated all = simulated(options, shown_watch());
  if (options.json)
    print_text(json_of(options, all));
  else
    print_simulated(options, all);
  return done;
}

std::string answer_simulate(const Options& options, const Watch& watch) {
  if (names_recording(options)) return answer_recorded(options, watch);
  return json_of(options, simulated(options, watch));
}

}  // namespace

const Command simulate_command = {
    "simulate",
    "JOB",
    job_help,
    "predict a training step: time, memory, cost",
    "json wide model task tokens batch length on count set profile measure-afresh prices programs "
    "trace "
    "trace-format "
    "report timeline write steps",
    run_simulate,
    "Predicts the time of a step, memory stage by stage, and cost. Where the job says that hosts "
    "fail, it predicts how long the whole run takes and what it costs. It plans first where the "
    "job says \"auto\".",
    answer_simulate};

}  // namespace meshwright::tools
