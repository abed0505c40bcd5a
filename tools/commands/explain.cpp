// Runs the command `explain`. `explain A B` shows why one step takes longer than another, cause by
// cause. `explain JOB --set KEY=VALUE` compares a job with its changed form. `explain JOB
// --measured TRACE` shows where a measured step differs from the predicted one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <span>

#include "models/core/error.h"
#include "models/core/json.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/explained.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/choose.h"
#include "tools/session/json_text.h"
#include "tools/session/machines.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

Explained explained(const std::string& name, const JobRequest& request, const MachineLoader& load,
                    const Watch& watch) {
  Explained one;
  one.name = name;
  one.job = read_job_of(request, watch);
  one.chosen = choose_plan(one.job, load, watch);
  Timeline timeline;
  one.prediction = predict_chosen(one.job, one.chosen, &timeline);
  one.parts = step_parts(one.chosen.compiled, one.chosen.cluster, one.prediction, timeline);
  one.tokens_per_s = one.prediction.tokens_per_s;
  return one;
}

// Returns the requests of the two sides: two jobs, or one job without and with --set. Throws
// InputError for any other number of jobs.
std::pair<JobRequest, JobRequest> two_of(const Options& options) {
  const std::vector<std::string>& jobs = options.operands;
  const bool one_changed = jobs.size() == 1 && !options.set.empty();
  if (jobs.size() != 2 && !one_changed)
    throw InputError(
        "explain: expected two job files, or one and what --set changes of it: "
        "explain A B, or explain A --set KEY=VALUE");
  JobRequest from = job_request(options, jobs.front());
  if (one_changed) from.set.clear();
  return {from, job_request(options, jobs.back())};
}

double seconds(SimTime time) { return to_seconds(time).value; }

// Returns a signed time: "+1.2 ms", "-340.0 us".
std::string show_change(SimTime change) {
  return (change < 0 ? "-" : "+") + show_seconds(std::abs(seconds(change)));
}

// Limit lists of kernels: in JSON, and of joined kernels as text.
constexpr std::size_t kernels_shown = 20, joined_shown = 12;

// Adds the communication times and, for a measured step, the longest kernels to the JSON of a step
// whose time was divided by kinds of kernels.
void add_kernels(const KernelParts& kernels, json& value) {
  value["communication"] = json::array();
  for (const CommunicationTime& each : kernels.communication)
    value["communication"].push_back(
        {{"kind", name_of(each.kind)}, {"time_ps", each.time}, {"exposed_ps", each.exposed}});
  if (kernels.kernels.empty()) return;
  value["steps"] = kernels.steps;  // number of steps that were averaged
  value["kernels"] = json::array();
  for (const NamedKernel& each :
       std::span(kernels.kernels).first(std::min(kernels_shown, kernels.kernels.size())))
    value["kernels"].push_back({{"name", each.name},
                                {"kind", name_of(each.kind)},
                                {"time_ps", each.time},
                                {"runs", each.runs}});
}

json side_json(const Explained& one) {
  json parts = json::array();
  for (const StepPart& part : one.parts.parts)
    parts.push_back({{"cause", part.cause}, {"time_ps", part.time}});
  json value = {{"name", one.job.name},
                {"machine", one.chosen.machine},
                {"count", one.chosen.count},
                {"step_time_ps", one.parts.step_time},
                {"tokens_per_s", one.tokens_per_s},
                {"stage", one.parts.stage},
                {"parts", parts}};
  if (!one.chosen.compiled.stages.empty()) {  // a recorded step has no plan
    value["parallelism"] = to_json(one.chosen.compiled.plan.parallelism);
    value["training"] = to_json(one.chosen.compiled.plan.training);
  }
  if (one.kernels)
    add_kernels(*one.kernels, value);
  else
    value["fits"] = one.prediction.fits;
  if (!one.trace.empty()) value["trace"] = one.trace;
  return value;
}

json joined_json(const JoinedKernels& joined) {
  json kinds = json::array(), kernels = json::array();
  for (const JoinedKind& each : joined.kinds)
    kinds.push_back({{"kind", name_of(each.kind)},
                     {"predicted_runs", each.predicted_runs},
                     {"measured_runs", each.measured_runs},
                     {"predicted_ps", each.predicted},
                     {"measured_ps", each.measured}});
  for (const JoinedKernel& each :
       std::span(joined.kernels).first(std::min(kernels_shown, joined.kernels.size())))
    kernels.push_back({{"name", each.name},
                       {"kind", name_of(each.kind)},
                       {"runs", each.runs},
                       {"predicted_ps", each.predicted},
                       {"measured_ps", each.measured}});
  return {{"kinds", kinds}, {"kernels", kernels}};
}

json comparison_json(const Explained& from, const Explained& to) {
  json changed = json::array();
  for (const PartChange& each : changes(from.parts, to.parts))
    changed.push_back({{"cause", each.cause},
                       {"from_ps", each.from},
                       {"to_ps", each.to},
                       {"change_ps", each.change()}});
  json value = {{"from", side_json(from)},
                {"to", side_json(to)},
                {"change_ps", to.parts.step_time - from.parts.step_time},
                {"changes", changed}};
  if (to.joined) value["joined"] = joined_json(*to.joined);
  return value;
}

// Returns the time of each kind of communication, in total and exposed, and at most three of the
// longest measured kernels that belong to no kind. Returns "" if the steps were not divided by
// kinds of kernels.
std::string kernels_text(const Explained& predicted, const Explained& measured) {
  if (!predicted.kernels || !measured.kernels) return "";
  std::map<KernelKind, std::array<CommunicationTime, 2>> kinds;
  for (const CommunicationTime& each : predicted.kernels->communication) kinds[each.kind][0] = each;
  for (const CommunicationTime& each : measured.kernels->communication) kinds[each.kind][1] = each;
  std::string text;
  if (!kinds.empty()) {
    Table table({"communication", "predicted", "exposed", "measured", "exposed"});
    for (const auto& [kind, times] : kinds)
      table.add({std::string(name_of(kind)), show_seconds(seconds(times[0].time)),
                 show_seconds(seconds(times[0].exposed)), show_seconds(seconds(times[1].time)),
                 show_seconds(seconds(times[1].exposed))});
    text += "\n" + table.text();
  }
  std::string others;
  int shown = 0;
  for (const NamedKernel& each : measured.kernels->kernels)
    if (each.kind == KernelKind::other && each.time > 0 && shown++ < 3)
      others += fmt::format("{}{} {}", others.empty() ? "" : ", ", each.name.substr(0, 60),
                            show_seconds(seconds(each.time)));
  if (!others.empty()) text += "The longest of the other kernels measured: " + others + ".\n";
  return text;
}

std::string error_text(SimTime predicted, SimTime measured) {
  if (measured == 0) return "-";
  return fmt::format("{:+.1f} %",
                     100 * (static_cast<double>(predicted) / static_cast<double>(measured) - 1));
}

// Returns two tables: the kinds of kernels, and the operations whose kernels differ most from the
// measured ones. Returns "" if the predicted step was not a recorded one.
std::string joined_text(const Explained& measured) {
  if (!measured.joined) return "";
  Table kinds({"kernels", "runs", "predicted", "runs", "measured", "off by"});
  for (const JoinedKind& each : measured.joined->kinds)
    kinds.add({std::string(name_of(each.kind)), std::to_string(each.predicted_runs),
               show_seconds(seconds(each.predicted)), std::to_string(each.measured_runs),
               show_seconds(seconds(each.measured)), error_text(each.predicted, each.measured)});
  Table kernels({"most off, where both have as many", "runs", "predicted", "measured", "off by"});
  for (const JoinedKernel& each :
       std::span(measured.joined->kernels)
           .first(std::min(joined_shown, measured.joined->kernels.size())))
    kernels.add({each.name.substr(0, 60), std::to_string(each.runs),
                 show_seconds(seconds(each.predicted)), show_seconds(seconds(each.measured)),
                 error_text(each.predicted, each.measured)});
  return "\n" + kinds.text() + "\n" + kernels.text();
}

std::string side_text(const Explained& one) {
  if (one.chosen.compiled.stages.empty())
    return fmt::format("{}  {}  {} x {}\n", one.name, one.job.name, one.chosen.count,
                       one.chosen.machine);
  return fmt::format("{}  {}  {} x {}  {}\n", one.name, one.job.name, one.chosen.count,
                     one.chosen.machine, short_plan_text(one.chosen.compiled.plan));
}

// Returns one sentence that names the first causes of `all`, at most three, and how much time each
// adds or saves. If both steps take the same time, the sentence says so.
std::string reason_text(const Explained& from, const Explained& to,
                        const std::vector<PartChange>& all) {
  const SimTime difference = to.parts.step_time - from.parts.step_time;
  if (difference == 0) return fmt::format("{} and {} take the same time.\n", from.name, to.name);
  std::string text =
      fmt::format("{} is {} {} ({}): ", to.name, show_seconds(std::abs(seconds(difference))),
                  difference < 0 ? "faster" : "slower",
                  show_percent(std::abs(static_cast<double>(difference)) /
                               static_cast<double>(from.parts.step_time)));
  for (std::size_t i = 0; i < std::min<std::size_t>(3, all.size()); ++i)
    text +=
        fmt::format("{}{} of {}", i == 0 ? "" : ", ", show_change(all[i].change()), all[i].cause);
  return text + ".\n";
}

// Returns a warning if the plan does not fit, because its step is predicted nevertheless. Otherwise
// returns "".
std::string fits_text(const Explained& one) {
  if (one.prediction.fits) return "";
  return fmt::format("{} does not fit: {}.\n", one.name,
                     peak_memory_text(one.chosen.compiled.plan, one.prediction));
}

std::string tokens_of(const Explained& one) {
  return fmt::format("{} tokens/s", show_number(one.tokens_per_s, 0));
}

void print_explained(const Explained& from, const Explained& to) {
  const std::vector<PartChange> all = changes(from.parts, to.parts);
  print_to(stdout, "{}{}", side_text(from), side_text(to));
  if (!to.trace.empty()) print_to(stdout, "{}\n", to.trace);
  print_to(stdout, "\n");
  Table table({"", from.name, to.name, "change"});
  for (const PartChange& each : all)
    table.add({each.cause, show_seconds(seconds(each.from)), show_seconds(seconds(each.to)),
               show_change(each.change())});
  SimTime unchanged = from.parts.step_time;
  for (const PartChange& each : all) unchanged -= each.from;
  if (unchanged != 0)
    table.add(
        {"unchanged", show_seconds(seconds(unchanged)), show_seconds(seconds(unchanged)), ""});
  table.add({"step", show_seconds(seconds(from.parts.step_time)),
             show_seconds(seconds(to.parts.step_time)),
             show_change(to.parts.step_time - from.parts.step_time)});
  print_to(stdout, "{}{}{}\n{}", table.text(), kernels_text(from, to), joined_text(to),
           reason_text(from, to, all));
  const Training &a = from.chosen.compiled.plan.training, &b = to.chosen.compiled.plan.training;
  if (a.global_batch * a.sequence_length != b.global_batch * b.sequence_length)
    print_to(stdout, "The steps do not have the same number of tokens: {} has {}, {} {}.\n",
             from.name, tokens_of(from), to.name, tokens_of(to));
  if (from.kernels) return;  // a profile is of one rank only
  print_to(stdout, "{}{}", fits_text(from), fits_text(to));
  if (from.chosen.compiled.stages.size() > 1 || to.chosen.compiled.stages.size() > 1)
    print_to(stdout, "Times are those of the stage that is busy longest: {} of {}, {} of {}.\n",
             from.parts.stage, from.name, to.parts.stage, to.name);
}

std::pair<Explained, Explained> both(const Options& options, const Watch& watch) {
  if (!options.measured.empty()) return predicted_and_measured(options, watch);
  const auto [first, second] = two_of(options);
  const MachineLoader load = asked_machines(options, watch);  // this computer is measured once
  return {explained("A", first, load, watch), explained("B", second, load, watch)};
}

std::string json_of(const std::pair<Explained, Explained>& sides) {
  return json_text(comparison_json(sides.first, sides.second), true);
}

int run_explain(const Options& options) {
  const auto sides = both(options, shown_watch());
  if (options.json)
    print_text(json_of(sides));
  else
    print_explained(sides.first, sides.second);
  return done;
}

std::string answer_explain(const Options& options, const Watch& watch) {
  return json_of(both(options, watch));
}

}  // namespace

const Command explain_command = {
    "explain",
    "A [B]",
    "two job files; or one, as it is and with what --set changes",
    "why a step takes longer than another, cause by cause",
    "json wide set profile measure-afresh prices measured",
    run_explain,
    "Compares two jobs, or one job with what --set changes of it. The changes sum to the "
    "difference to the picosecond. With --measured it compares the predicted step with a measured "
    "one: the trace of `train --trace`, or what PyTorch's profiler saw of your own framework "
    "(docs/traces.md). A recorded step of a script (`rehearse --write`) goes with --measured too.",
    answer_explain};

}  // namespace meshwright::tools
