// Runs the command `sensitivity JOB`, which changes one input of the prediction at a time, and
// shows which inputs change the job's time, tokens or cost most.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/core/json.h"
#include "sim/advise/sensitivity.h"
#include "sim/predict/goodput.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/recorded_operand.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/choose.h"
#include "tools/session/json_text.h"
#include "tools/session/screen.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

constexpr std::string_view names[] = {"usd", "tokens", "time_s"};

std::string show(double number, AnswerUnit answer) {
  return answer == AnswerUnit::usd      ? show_usd(number)
         : answer == AnswerUnit::tokens ? show_count(number) + " tokens"
                                        : show_duration(number);
}

json end_json(const Swing::End& end) {
  json value = {{"value", end.value}, {"time_s", nullptr}, {"usd", nullptr}, {"tokens", nullptr}};
  if (!end.answer) return value;
  value["time_s"] = end.answer->time_s;
  value["tokens"] = end.answer->tokens;
  if (end.answer->bill) value["usd"] = end.answer->bill->usd;
  return value;
}

json answer_json(const Job& job, const Chosen& chosen, const Sensitivity& all) {
  json swings = json::array();
  for (const Swing& swing : all.swings)
    swings.push_back({{"input", swing.input},
                      {"low", end_json(swing.low)},
                      {"high", end_json(swing.high)},
                      {"width", swing.width()}});
  json value = {{"name", job.name},
                {"machine", chosen.machine},
                {"count", chosen.count},
                {"answer", names[static_cast<std::size_t>(all.answer)]},
                {"time_s", all.base.time_s},
                {"tokens", all.base.tokens},
                {"usd", all.base.bill ? json(all.base.bill->usd) : json(nullptr)},
                {"inputs", swings}};
  if (chosen.compiled.stages.empty()) return value;  // a recorded step has no plan
  value["parallelism"] = to_json(chosen.compiled.plan.parallelism);
  value["training"] = to_json(chosen.compiled.plan.training);
  return value;
}

// Returns a bar from the base (the middle) to the lowest and to the highest answer: " <<<|>> ". A
// difference of `reach` from the base fills half of the bar.
std::string bar_text(const Swing& swing, double reach, int half) {
  double least = 0, most = 0;
  for (const Swing::End* end : {&swing.low, &swing.high}) {
    if (!end->answer) continue;
    least = std::max(least, swing.base - end->number);
    most = std::max(most, end->number - swing.base);
  }
  const auto cells = [&](double change) {
    return reach > 0 ? static_cast<std::size_t>(std::lround(half * change / reach)) : 0;
  };
  const std::string left(cells(least), '<'), right(cells(most), '>');
  return fmt::format("{:>{}}|{:<{}}", left, half, right, half);
}

void print_sensitivity(const Job& job, const Chosen& chosen, const Sensitivity& all) {
  print_to(
      stdout, "{}  {} x {}  {}\n", job.name, chosen.count, chosen.machine,
      chosen.compiled.stages.empty() ? "recorded step" : short_plan_text(chosen.compiled.plan));
  print_to(stdout, "{}: {} tokens, {}, {}. One input at a time, the plan stays:\n\n",
           has_length(job) ? "The whole job" : "One step (the job does not say how many)",
           show_count(all.base.tokens), show_duration(all.base.time_s), bill_text(all.base.bill));
  double reach = 0;
  for (const Swing& swing : all.swings)
    for (const Swing::End* end : {&swing.low, &swing.high})
      if (end->answer) reach = std::max(reach, std::abs(end->number - swing.base));
  const int half = screen_columns() > usual_columns ? 16 : 6;  // width of half a bar
  Table table({"input", "low", "high", "answer at low", "at low", "answer at high", "at high",
               fmt::format("{:>{}}|{:<{}}", "less ", half, " more", half)});
  table.may_break("input");
  table.may_lack({"answer at low", "answer at high"});
  const double base = all.swings.front().base;
  const auto answer = [&](const Swing::End& end) {
    return end.answer ? show(end.number, all.answer) : std::string("-");
  };
  const auto change = [&](const Swing::End& end) {
    return end.answer ? fmt::format("{:+.1f} %", 100 * (end.number / base - 1))
                      : std::string("not legal");
  };
  for (const Swing& swing : all.swings)
    table.add({swing.input, swing.low.value, swing.high.value, answer(swing.low), change(swing.low),
               answer(swing.high), change(swing.high), bar_text(swing, reach, half)});
  print_to(stdout, "{}", table.text());
}

struct Examined {
  Job job;
  Chosen chosen;
  Sensitivity sensitivity;
};

// Returns how the prediction of a recorded step depends on each input. The step is predicted again
// for each case. It also writes the files of --report and --trace.
Examined examined_recording(const Options& options, const Watch& watch) {
  const Recording recording = asked_recording(options);
  const Rehearsed first = priced_recording(options, recording, watch);
  Examined all;
  all.job = first.job;
  all.job.name = first.script;
  all.chosen.machine = first.cluster.machine.name;
  all.chosen.count = first.cluster.hosts;
  const auto predict = [&](const SensitivityCase& each) {
    const Rehearsed step =
        session::rehearsed(recording, first.job, each.cluster, {.host_factor = each.host_factor});
    Prediction prediction = step.prediction;
    prediction.step_time_s *= each.step_factor;
    return prediction;
  };
  all.sensitivity = sensitivity_of_recorded(first.job, first.cluster, predict);
  return all;
}

Examined examined(const Options& options, const Watch& watch) {
  if (names_recording(options)) return examined_recording(options, watch);
  Examined all;
  all.job = job_to_search(options, watch);
  all.chosen = choose_plan(all.job, asked_machines(options, watch), watch, LeftOut::is_open);
  all.sensitivity = sensitivity(all.job, all.chosen.compiled.plan, all.chosen.cluster);
  return all;
}

std::string json_of(const Examined& all) {
  return json_text(answer_json(all.job, all.chosen, all.sensitivity), true);
}

int run_sensitivity(const Options& options) {
  const Examined all = examined(options, shown_watch());
  if (options.json)
    print_text(json_of(all));
  else
    print_sensitivity(all.job, all.chosen, all.sensitivity);
  return done;
}

std::string answer_sensitivity(const Options& options, const Watch& watch) {
  return json_of(examined(options, watch));
}

}  // namespace

const Command sensitivity_command = {
    "sensitivity",
    "JOB",
    job_help,
    "which inputs move time or cost of the whole job most",
    "json wide model task tokens batch length on count set for by budget profile measure-afresh "
    "prices",
    run_sensitivity,
    "Changes one input at a time (prices, bandwidths, failure rates, batch, the error of the "
    "prediction itself and others) and prints what moves the answer most, as a table and a tornado "
    "chart. A recorded step of a script takes the place of a job; its batch and its plan stay.",
    answer_sensitivity};

}  // namespace meshwright::tools
