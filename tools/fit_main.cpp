// Derives the constants of the machine profiles from published measurements. tools/fit builds and
// starts this program.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "hwprofiles/load.h"
#include "hwprofiles/rewrite.h"
#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "sim/validate/fit.h"
#include "sim/validate/score.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

using namespace meshwright::tools;

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

// Returns the text in a machine's profile that tells where its constants come from. If the
// machine's calibration is `evidence`, the constants are fitted to measured rows. Otherwise they
// are from spec sheets and estimates, and only the constants that all GPUs share are fitted.
std::string source_of(const Machine& machine, const Fit& fit) {
  const bool measured = machine.calibration == Calibration::evidence;
  return fmt::format(
      "{}: tools/fit on {} rows of {}. Second generation of flash attention: 50-73 % of the peak, "
      "its authors' report",
      measured ? "Fitted" : "Spec sheet and estimates; what is common to all GPUs is fitted",
      fit.rows, fmt::join(fit.sources, ", "));
}

// Returns the interval in which the next ratio of measured to predicted step time lies with a
// probability of 80 %, if it is drawn like `shares`, the ratios so far. The interval reaches from
// position 0.1 (n + 1) to 0.9 (n + 1) of the n sorted ratios (Wilks's limits from order
// statistics). Between two positions it is interpolated. Returns nothing for fewer than 10 ratios.
std::optional<Residuals::Interval> interval_of(std::vector<double> shares) {
  constexpr std::size_t fewest = 10;
  if (shares.size() < fewest) return std::nullopt;
  std::ranges::sort(shares);
  const double places = static_cast<double>(shares.size()) + 1;
  const auto at_place = [&](double place) {
    const auto below = static_cast<std::size_t>(place);  // positions count from 1
    const double beyond = place - static_cast<double>(below);
    return shares[below - 1] + beyond * (shares[below] - shares[below - 1]);
  };
  return Residuals::Interval{at_place(0.1 * places), at_place(0.9 * places),
                             static_cast<int>(shares.size())};
}

// Returns the intervals of measured / predicted step time on these GPUs, for one host and for
// several hosts. If only one of the two has enough rows, the other is unset. If both have too few,
// both are the interval of all rows. If all rows are too few as well, returns nothing. Every row
// has the same weight, because an interval is about the next step that somebody measures.
std::optional<Residuals> residuals_of(const ValidationScores& scores,
                                      const std::vector<std::string>& gpus) {
  std::vector<double> one, many, all;
  for (const ScoredStep& step : scores.steps) {
    if (std::ranges::count(gpus, step.gpu) == 0) continue;
    all.push_back(step.measured_step_time_s / step.predicted_step_time_s);
    (step.hosts > 1 ? many : one).push_back(all.back());
  }
  Residuals residuals{interval_of(one), interval_of(many)};
  if (!residuals.one_host && !residuals.many_hosts)
    residuals = {interval_of(all), interval_of(all)};
  if (!residuals.one_host && !residuals.many_hosts) return std::nullopt;
  return residuals;
}

void write_if_new(const std::string& path, const std::string& text, const std::string& machine) {
  if (text == read_file(path)) return;
  write_file(path, text);
  load_machine(machine);  // throws if the new profile cannot be read
}

void write_intervals(const ValidationScores& scores) {
  for (const auto& [path, machine, gpus] : fitted_files())
    if (path.find("/gpus/") != std::string::npos)
      write_if_new(path, with_residuals(read_file(path), residuals_of(scores, gpus)), machine);
}

void write_profiles(const Fit& fit, const ValidationScores& scores) {
  for (const auto& [path, name, gpus] : fitted_files()) {
    const Machine machine = with_constants(load_machine(name), fit);
    if (text_of(machine) == text_of(load_machine(name))) continue;
    const std::string text = read_file(path);
    write_if_new(path,
                 fit.links_alone ? with_fitted_links(text, machine)
                                 : with_fitted_constants(text, machine, source_of(machine, fit)),
                 name);
  }
  if (!fit.links_alone) write_intervals(scores);
}

std::string rows_text(const ValidationScores& scores) {
  std::string text;
  for (const ScoredStep& step : scores.steps) {
    text += fmt::format("{} {:.6g} {:.6g} {:.4f}", step.id, step.measured_step_time_s,
                        step.predicted_step_time_s,
                        step.predicted_step_time_s / step.measured_step_time_s - 1);
    if (const std::optional<double>& peak = step.measured_peak_memory_bytes)
      text += fmt::format(" memory {:.6g} {:.6g} {:.4f}", *peak, step.predicted_peak_memory_bytes,
                          step.predicted_peak_memory_bytes / *peak - 1);
    text += step.fits ? "\n" : " does not fit\n";
  }
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
  bool write = false, intervals_alone = false;
  app.add_option("FILES", files, "files of published measurements")->required();
  app.add_option("--leave-out", options.leave_out, "a source that the fit must not see");
  app.add_option("--iterations", options.iterations, "at most (12)");
  app.add_flag("--links", options.links_alone,
               "fit the links to collectives alone; kernels stay as they are");
  app.add_option("--kernels-of", options.kernels_of,
                 "fit the kernels of this kind of GPU (H100) alone; all else stays as it is");
  app.add_flag("--intervals", intervals_alone,
               "fit nothing; put how far steps are from predictions into the profiles");
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
  if (intervals_alone) {
    write_intervals(before);
    if (!rows.empty()) write_file(rows, rows_text(before));
    return 0;
  }
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
