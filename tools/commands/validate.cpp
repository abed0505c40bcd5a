// Runs the command `validate FILES`, which compares predictions with published measurements, source
// by source, next to the error of a prediction by a constant MFU.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "sim/validate/score.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/progress.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

json summary_json(const ErrorSummary& summary) {
  json value = {{"source", summary.source},   {"rows", summary.rows},
                {"mape", summary.mape},       {"median_ape", summary.median_ape},
                {"p90_ape", summary.p90_ape}, {"bias", summary.bias}};
  if (summary.inside) value["inside_interval"] = *summary.inside;
  if (summary.pairs_in_order) {
    value["pairs_in_order"] = *summary.pairs_in_order;
    value["regret"] = *summary.regret;
  }
  if (summary.constant_mfu) value["constant_mfu"] = *summary.constant_mfu;
  if (summary.constant_mfu_mape) value["constant_mfu_mape"] = *summary.constant_mfu_mape;
  return value;
}

json by(const char* key, const std::vector<ErrorSummary>& summaries) {
  json values = json::array();
  for (const ErrorSummary& summary : summaries) {
    values.push_back(summary_json(summary));
    values.back()[key] = summary.source;
    values.back().erase("source");
  }
  return values;
}

json scores_json(const ValidationScores& scores) {
  json rows = json::array(), sources = json::array(), skipped = json::array();
  for (const ScoredStep& step : scores.steps)
    rows.push_back(
        {{"id", step.id},
         {"source", step.source},
         {"predicted_step_time_s", step.predicted_step_time_s},
         {"measured_step_time_s", step.measured_step_time_s},
         {"predicted_interval_s",
          step.interval ? json{step.interval->low_s, step.interval->high_s} : json(nullptr)},
         {"predicted_peak_memory_bytes", step.predicted_peak_memory_bytes},
         {"measured_peak_memory_bytes",
          step.measured_peak_memory_bytes ? json(*step.measured_peak_memory_bytes) : json(nullptr)},
         {"fits", step.fits}});
  for (const ScoredCollective& collective : scores.collectives)
    rows.push_back({{"id", collective.id},
                    {"source", collective.source},
                    {"predicted_time_s", collective.predicted_time_s},
                    {"measured_time_s", collective.measured_time_s}});
  for (const ScoredBatch& batch : scores.batches) {
    rows.push_back({{"id", batch.id},
                    {"source", batch.source},
                    {"model", batch.model},
                    {"machine", batch.machine},
                    {"column", batch.compiled ? "compiled" : "native"},
                    {"predicted_max_batch", batch.predicted_max_batch},
                    {"measured_max_batch", batch.measured_max_batch}});
    if (batch.full_max_batch) rows.back()["full_max_batch"] = *batch.full_max_batch;
  }
  for (const ErrorSummary& summary : scores.sources) sources.push_back(summary_json(summary));
  json memory = json::array(), scaling = json::array(), fits = json::array();
  for (const ErrorSummary& summary : scores.memory) memory.push_back(summary_json(summary));
  for (const ScalingPair& pair : scores.scaling)
    scaling.push_back({{"source", pair.source},
                       {"ids", {pair.one, pair.several}},
                       {"gpus", {1, pair.gpus}},
                       {"predicted_efficiency", pair.predicted},
                       {"measured_efficiency", pair.measured},
                       {"within_3_points", std::abs(pair.difference()) <= scaling_tolerance}});
  for (const FitChecks& check : scores.fits)
    fits.push_back({{"source", check.source},
                    {"largest_batches", check.largest},
                    {"said_to_fit_at_1.25x", check.said_too_large},
                    {"measured_steps", check.ran},
                    {"said_not_to_fit", check.said_not_to_fit}});
  for (const SkippedRow& row : scores.skipped)
    skipped.push_back({{"id", row.id}, {"reason", row.reason}});
  return {{"rows", rows},
          {"sources", sources},
          {"overall", summary_json(scores.overall)},
          {"machines", by("machine", scores.machines)},
          {"peak_memory", memory},
          {"scaling", scaling},
          {"fits", fits},
          {"collectives_from_1_MiB", by("cluster", scores.long_collectives)},
          {"collectives_below_1_MiB", by("cluster", scores.short_collectives)},
          {"skipped", skipped}};
}

void add_row(Table& table, const ErrorSummary& summary) {
  table.add({summary.source, std::to_string(summary.rows), show_percent(summary.mape),
             show_percent(summary.median_ape), show_percent(summary.p90_ape),
             fmt::format("{:+.1f} %", summary.bias * 100),
             summary.inside ? show_percent(*summary.inside) : "-",
             summary.pairs_in_order ? show_percent(*summary.pairs_in_order) : "-",
             summary.regret ? show_percent(*summary.regret) : "-",
             summary.constant_mfu_mape ? show_percent(*summary.constant_mfu_mape) : "-"});
}

void print_table(const Table& table) {
  if (table.rows().size() > 1) print_to(stdout, "\n{}", table.text());
}

void print_machines(const ValidationScores& scores) {
  Table table({"training steps by machine", "rows", "mean error", "bias", "in interval"});
  for (const ErrorSummary& summary : scores.machines)
    table.add({summary.source, std::to_string(summary.rows), show_percent(summary.mape),
               fmt::format("{:+.1f} %", summary.bias * 100),
               summary.inside ? show_percent(*summary.inside) : "-"});
  print_table(table);
}

void print_scaling(const ValidationScores& scores) {
  Table table({fmt::format("scaling efficiency, 1 to {} GPUs", scaled_gpus), "pairs",
               "within 3 points", "mean difference"});
  for (const ScalingSummary& summary : summarise(scores.scaling))
    table.add({summary.source, std::to_string(summary.pairs), std::to_string(summary.within),
               fmt::format("{:+.1f} points", summary.mean_difference * 100)});
  print_table(table);
}

void print_errors(const char* title, const std::vector<ErrorSummary>& summaries) {
  Table table({title, "rows", "mean error", "median", "90 %", "bias"});
  for (const ErrorSummary& summary : summaries)
    table.add({summary.source, std::to_string(summary.rows), show_percent(summary.mape),
               show_percent(summary.median_ape), show_percent(summary.p90_ape),
               fmt::format("{:+.1f} %", summary.bias * 100)});
  print_table(table);
}

// Prints, for each source, how well predictions tell what fits in memory. Omits a source that has
// no published largest batch and no measured step that is predicted not to fit.
void print_fits(const ValidationScores& scores) {
  Table table(
      {"what fits", "largest batches", "1.25 x said to fit", "measured steps", "said not to fit"});
  for (const FitChecks& check : scores.fits)
    if (check.largest > 0 || check.said_not_to_fit > 0)
      table.add({check.source, std::to_string(check.largest), std::to_string(check.said_too_large),
                 std::to_string(check.ran), std::to_string(check.said_not_to_fit)});
  print_table(table);
}

using ScoreWatch = std::function<void(std::size_t rows, std::size_t all)>;

ValidationScores validated(const Options& options, const Watch& watch, const ScoreWatch& progress) {
  if (options.operands.empty())
    throw InputError(
        "validate: name the files of published measurements, for example "
        "scenarios/evidence/*.json");
  std::vector<Evidence> evidence;
  for (const std::string& file : options.operands) evidence.push_back(read_evidence(file));
  return score(evidence, progress, asked_machines(options, watch));
}

void print_scores(const ValidationScores& scores) {
  Table table({"source", "rows", "mean error", "median", "90 %", "bias", "in interval", "in order",
               "regret", "constant MFU"});
  table.may_lack({"regret", "in order", "median", "constant MFU"});
  for (const ErrorSummary& summary : scores.sources) add_row(table, summary);
  if (scores.overall.rows > 0) add_row(table, scores.overall);
  print_to(stdout, "{}", table.text());
  print_machines(scores);
  print_scaling(scores);
  print_errors("collectives from 1 MiB", scores.long_collectives);
  print_errors("collectives below 1 MiB", scores.short_collectives);
  print_errors("peak memory", scores.memory);
  print_fits(scores);
  if (!scores.skipped.empty())
    print_to(stdout, "\n{} rows are not predicted: {}\n", scores.skipped.size(),
             scores.skipped.front().reason);
}

int run_validate(const Options& options) {
  std::optional<ProgressLine> line(std::in_place);
  const ValidationScores scores =
      validated(options, printed_watch(), [&](std::size_t rows, std::size_t all) {
        line->at(static_cast<double>(rows) / static_cast<double>(all),
                 fmt::format("{} of {} rows", rows, all));
      });
  line.reset();
  if (options.json)
    print_text(json_text(scores_json(scores), true));
  else
    print_scores(scores);
  return done;
}

std::string answer_validate(const Options& options, const Watch& watch) {
  const auto stop = [&](std::size_t, std::size_t) {
    if (watch.stop && watch.stop()) throw StopRequested();
  };
  return json_text(scores_json(validated(options, watch, stop)), true);
}

}  // namespace

const Command validate_command = {"validate",
                                  "FILES",
                                  "files of published measurements",
                                  "predicted against published measurements",
                                  "json wide profile",
                                  run_validate,
                                  "Predicts published measurements and prints the error of each "
                                  "source. Your own measurements in the same form work too.",
                                  answer_validate};

}  // namespace meshwright::tools
