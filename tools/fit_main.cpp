// Derives the constants of the machine profiles again from published measurements; tools/fit builds
// and starts it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "hwprofiles/load.h"
#include "hwprofiles/rewrite.h"
#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "sim/validate/fit.h"
#include "sim/validate/score.h"
#include "tools/report/text.h"
#include "tools/write_file.h"

using namespace meshwright;

namespace {

void print_constants(const Fit& fit) {
  Table table({"constant", "of", "before", "after", "rows"});
  for (const FittedConstant& constant : fit.constants)
    if (!constant.held && (constant.rows > 0 || !fit.links_alone))
      table.add({constant.name, fmt::format("{}", fmt::join(constant.kinds, " ")),
                 fmt::format("{:.4g}", constant.before), fmt::format("{:.4g}", constant.after),
                 fmt::format("{:.0f}", constant.rows)});
  std::printf("%s\n", table.text().c_str());
}

void print_errors(const ValidationScores& before, const ValidationScores& after) {
  Table table({"source", "rows", "before", "mean error", "median", "90 %", "bias"});
  const auto add = [&](const ErrorSummary& was, const ErrorSummary& is) {
    table.add({is.source, std::to_string(is.rows), show_percent(was.mape), show_percent(is.mape),
               show_percent(is.median_ape), show_percent(is.p90_ape),
               fmt::format("{:+.1f} %", is.bias * 100)});
  };
  for (std::size_t i = 0; i < after.sources.size(); ++i) add(before.sources[i], after.sources[i]);
  add(before.overall, after.overall);
  std::printf("%s\n", table.text().c_str());
}

// GPUs that rows were measured on are fitted; all others get what is common to all.
std::string source_of(const Machine& machine, const Fit& fit) {
  const bool measured = machine.calibration == Calibration::evidence;
  return fmt::format(
      "{}: tools/fit on {} rows of {}. Second generation of flash attention: 50-73 % of the peak, "
      "its authors' report",
      measured ? "Fitted" : "Spec sheet and estimates; what is common to all GPUs is fitted",
      fit.rows, fmt::join(fit.sources, ", "));
}

// Of steps on GPUs with the same first part of the name: A100 of A100-SXM4-80GB.
std::optional<Residuals::Interval> interval_of(const ValidationScores& scores,
                                               const std::string& gpu, bool many_hosts) {
  const std::string kind = gpu.substr(0, gpu.find('-'));
  std::vector<std::pair<double, double>> shares;
  for (const ScoredStep& step : scores.steps)
    if (step.gpu.starts_with(kind) && (step.hosts > 1) == many_hosts)
      shares.emplace_back(step.measured_step_time_s / step.predicted_step_time_s, step.weight);
  constexpr std::size_t fewest = 10;
  if (shares.size() < fewest) return std::nullopt;
  return Residuals::Interval{quantile(shares, 0.1), quantile(shares, 0.9),
                             static_cast<int>(shares.size())};
}

void write_profiles(const Fit& fit, const ValidationScores& scores) {
  for (const auto& [path, name] : fitted_files()) {
    Machine machine = with_constants(load_machine(name), fit);
    if (text_of(machine) == text_of(load_machine(name))) continue;
    if (fit.links_alone) {
      write_file(path, with_fitted_links(read_file(path), machine));
      continue;
    }
    Residuals residuals{interval_of(scores, machine.gpu.name, false),
                        interval_of(scores, machine.gpu.name, true)};
    machine.residuals.reset();
    if (residuals.one_host || residuals.many_hosts) machine.residuals = residuals;
    write_file(path, with_fitted_constants(read_file(path), machine, source_of(machine, fit)));
    load_machine(name);  // it can be read again
  }
}

std::string rows_text(const ValidationScores& scores) {
  std::string text;
  for (const ScoredStep& step : scores.steps)
    text += fmt::format("{} {:.6g} {:.6g} {:.4f}\n", step.id, step.measured_step_time_s,
                        step.predicted_step_time_s,
                        step.predicted_step_time_s / step.measured_step_time_s - 1);
  for (const ScoredCollective& each : scores.collectives)
    text += fmt::format("{} {:.6g} {:.6g} {:.4f}\n", each.id, each.measured_time_s,
                        each.predicted_time_s, each.predicted_time_s / each.measured_time_s - 1);
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("derive the constants of the machine profiles from published measurements");
  std::vector<std::string> files;
  FitOptions options;
  std::string rows;
  bool write = false;
  app.add_option("FILES", files, "files of published measurements")->required();
  app.add_option("--leave-out", options.leave_out, "a source that the fit must not see");
  app.add_option("--iterations", options.iterations, "at most (12)");
  app.add_flag("--links", options.links_alone,
               "fit the links to collectives alone; kernels stay as they are");
  app.add_option("--kernels-of", options.kernels_of,
                 "fit the kernels of this kind of GPU (H100) alone; all else stays as it is");
  app.add_flag("--write", write, "put the constants into the profiles");
  app.add_option("--rows", rows, "write every row's error to this file");
  CLI11_PARSE(app, argc, argv);
  check_writable("--rows", rows, files);
  std::vector<Evidence> evidence;
  for (const std::string& file : files) {
    evidence.push_back(read_evidence(file));
    evidence.back().largest_batches.clear();
    if (options.links_alone) evidence.back().steps.clear();
  }
  options.progress = [](int iteration, double cost) {
    std::fprintf(stderr, "iteration %d: %.4f\n", iteration, cost);
  };
  const ValidationScores before = score(evidence);
  const Fit fit = fit_constants(evidence, options);
  const ValidationScores after = score(evidence, {}, [&](const std::string& name) {
    return with_constants(load_known_machine(name), fit);
  });
  print_constants(fit);
  print_errors(before, after);
  if (write) write_profiles(fit, after);
  if (!rows.empty()) write_file(rows, rows_text(after));
  return 0;
} catch (const InputError& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
