#include "sim/risk/risk.h"

#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "sim/planner/in_parallel.h"
#include "sim/predict/goodput.h"
#include "sim/risk/played_run.h"

namespace meshwright::sim {

namespace {

// Limits the failures of all runs together. This many take about a second to simulate.
constexpr double most_failures_of_all = 2e7;
constexpr int fewest_runs = 100;

double quantile(const std::vector<double>& sorted, double share) {
  const auto index =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(index, 1) - 1];
}

Spread spread_of(std::vector<double> values) {
  Spread spread;
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  std::ranges::sort(values);
  spread.p10 = quantile(values, 0.1);
  spread.p50 = quantile(values, 0.5);
  spread.p90 = quantile(values, 0.9);
  return spread;
}

// Simulates all runs, except run 0, which is `first`. They are divided into pieces, so that threads
// do not write to the same memory.
std::vector<PlayedRun> play_all(const RunModel& model, const RiskOptions& options, int runs,
                                const PlayedRun& first) {
  constexpr int of_piece = 50;
  std::vector<PlayedRun> played(runs, first);
  const auto pieces = static_cast<std::size_t>((runs + of_piece - 1) / of_piece);
  in_parallel(pieces, options.threads, [&](std::size_t piece, std::size_t) {
    const int begin = static_cast<int>(piece) * of_piece;
    for (int run = std::max(begin, 1); run < std::min(begin + of_piece, runs); ++run)
      played[run] = play_run(model, options.seed, run);
  });
  return played;
}

// Sums up the shares, causes and failures of all runs. The runs are added in the order of their
// numbers, so that the result is the same with any number of threads.
void sum_up(const RunModel& model, const std::vector<PlayedRun>& played, RunRisk& risk) {
  const auto runs = static_cast<double>(played.size());
  double wall_s = 0;
  TimeShares& shares = risk.shares;
  for (const FailureSource& source : model.failures.sources)
    risk.causes.push_back({source.cause, 0, 0});
  for (const PlayedRun& run : played) {
    wall_s += run.wall_s;
    shares.lost += run.lost_s;
    shares.checkpoints += run.checkpoints_s;
    shares.restarts += run.restarts_s;
    shares.waiting += run.waiting_s;
    risk.failures += static_cast<double>(run.failures) / runs;
    for (CauseRisk& cause : risk.causes) {
      cause.failures += run.count_of[static_cast<std::size_t>(cause.cause)] / runs;
      cause.time_s += run.time_of_s[static_cast<std::size_t>(cause.cause)] / runs;
    }
  }
  for (double* share : {&shares.lost, &shares.checkpoints, &shares.restarts, &shares.waiting}) {
    *share /= wall_s;
    shares.steps -= *share;
  }
}

}  // namespace

RunRisk risk_of(const RunModel& given, const RiskOptions& options) {
  MESHWRIGHT_CHECK(given.step_time_s > 0 && given.steps > 0 && options.runs > 0,
                   "a run has steps, and is played");
  RunModel model = given;
  if (model.every_steps == 0)
    model.every_steps = best_every_steps(failure_model(model.failures), model.step_time_s);
  RunRisk risk;
  risk.every_steps = model.every_steps;
  const PlayedRun first = play_run(model, options.seed, 0);
  risk.finishes = first.finished;
  if (!risk.finishes) return risk;
  const double affordable = most_failures_of_all / static_cast<double>(first.failures + 1);
  risk.runs =
      std::min(options.runs, std::max(fewest_runs, static_cast<int>(std::min(affordable, 1e9))));
  const std::vector<PlayedRun> played = play_all(model, options, risk.runs, first);
  risk.finishes = std::ranges::all_of(played, &PlayedRun::finished);
  if (!risk.finishes) return risk;
  std::vector<double> wall_s, usd;
  for (const PlayedRun& run : played) {
    wall_s.push_back(run.wall_s);
    if (!model.price) continue;
    const Bill bill = bill_of(*model.price, model.hosts + model.failures.spares, run.wall_s);
    usd.push_back(bill.usd);
    risk.idle_usd += bill.idle_usd / risk.runs;
  }
  risk.wall_s = spread_of(std::move(wall_s));
  if (!usd.empty()) risk.usd = spread_of(std::move(usd));
  sum_up(model, played, risk);
  return risk;
}

std::optional<SpareWorth> spare_worth(const RunModel& model, const RunRisk& risk,
                                      const RiskOptions& options) {
  if (std::ranges::none_of(model.failures.sources, &FailureSource::loses_host)) return std::nullopt;
  const int spares = model.failures.spares;
  RunModel other = model;
  other.failures.spares = spares > 0 ? 0 : 1;
  other.every_steps = risk.every_steps;
  const RunRisk of_other = risk_of(other, options);
  if (!risk.finishes || !of_other.finishes) return std::nullopt;
  const RunRisk& with = spares > 0 ? risk : of_other;
  const RunRisk& without = spares > 0 ? of_other : risk;
  SpareWorth worth{std::max(spares, 1), without.wall_s.mean - with.wall_s.mean, std::nullopt};
  if (risk.usd) worth.usd = without.usd->mean - with.usd->mean;
  return worth;
}

}  // namespace meshwright::sim
