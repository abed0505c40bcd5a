// Compares predictions with measurements: every row that can be predicted, and the errors of each
// source. Each error of training steps is reported next to that of the simplest predictor, one
// constant MFU.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/planner/clusters.h"
#include "sim/predict/predict.h"
#include "sim/validate/evidence.h"
#include "sim/validate/scaling.h"

namespace meshwright::sim {

struct ScoredStep {
  std::string id, source;
  double predicted_step_time_s = 0, measured_step_time_s = 0;
  double predicted_peak_memory_bytes = 0;
  std::optional<double> measured_peak_memory_bytes;
  bool fits = true;
  std::string machine, gpu;  // names of the machine and its GPU
  int hosts = 1;
  int ranks = 1;
  double sequences = 0;  // number of sequences of a step
  std::string question;  // equal for steps that differ in their plan only
  std::string plan;      // among steps of one question: equal for steps of one plan
  std::string per_gpu;   // equal for steps that differ in the number of replicas only
  double weight = 1;     // in mean errors: less than 1 if rows of the source depend on each other
  std::optional<StepInterval> interval;
  double predicted_mfu = 0;
  // Returns the MFU that was measured: model FLOPs / (measured time * peak).
  double measured_mfu() const {
    return predicted_mfu * predicted_step_time_s / measured_step_time_s;
  }
};

struct ScoredCollective {
  std::string id, source;
  double predicted_time_s = 0, measured_time_s = 0;
  std::string machine;
  int hosts = 1;
  double bytes = 0;
};

struct ScoredBatch {  // the largest batch per GPU, in one column of a row
  std::string id, source, model, machine;
  bool compiled = false;  // whether the column is that of the training compiler
  int predicted_max_batch = 0, measured_max_batch = 0;
  // With this project's compiler at level full; none in the other column.
  std::optional<int> full_max_batch;
};

struct SkippedRow {
  std::string id, reason;
};

// Relative errors as fractions: 0.05 is 5 percent. error = predicted/measured - 1.
struct ErrorSummary {
  std::string source;
  int rows = 0;
  double mape = 0;        // mean of |error|
  double median_ape = 0;  // median of |error|
  double p90_ape = 0;     // 90th percentile of |error|, linear between ranks
  double bias = 0;        // mean error; above 0 if predictions are too slow
  // Share of the steps that are within their intervals, among those that have one.
  std::optional<double> inside;
  // For plans of one model, batch and cluster: `pairs_in_order` is the share of pairs of plans that
  // are predicted in the right order. `regret` is how much slower than the fastest plan the plan is
  // that was predicted to be the fastest, as a fraction. It is the mean over the questions with
  // three or more plans. If a plan was measured several times, the median counts.
  std::optional<double> pairs_in_order, regret;
  std::optional<double> constant_mfu;  // the median measured MFU of steps
  // The mean |error| of predicting steps with `constant_mfu`.
  std::optional<double> constant_mfu_mape;
};

// A prediction counts as too large if it says that this multiple of the largest measured batch
// fits.
constexpr double too_large = 1.25;

// Compares what is predicted to fit in memory with what did fit.
struct FitChecks {
  std::string source;
  int largest = 0;          // number of published largest batches, without and with a compiler
  int said_too_large = 0;   // of these, how many are predicted to fit if multiplied by `too_large`
  int ran = 0;              // number of measured steps
  int said_not_to_fit = 0;  // of these, how many are predicted not to fit
};

struct ValidationScores {
  std::vector<ScoredStep> steps;
  std::vector<ScoredCollective> collectives;
  std::vector<ScoredBatch> batches;  // two for each row: without and with the training compiler
  std::vector<ScalingPair> scaling;
  std::vector<ErrorSummary> machines;  // errors of training steps, by machine
  std::vector<ErrorSummary> memory;    // errors of peak memory, of sources that publish it
  std::vector<ErrorSummary> long_collectives, short_collectives;
  std::vector<FitChecks> fits;  // one for each source of steps or largest batches
  std::vector<SkippedRow> skipped;
  // Errors by source, in the order of the files. Collectives have entries of their own, and largest
  // batches have one for each column.
  std::vector<ErrorSummary> sources;
  ErrorSummary overall;  // errors of all training steps
};

struct Pair {
  double predicted = 0, measured = 0, weight = 1;
};
ErrorSummary summarise(const std::string& source, std::span<const Pair> pairs);
// Returns the value below which the values have `share` of the total weight, interpolated linearly.
// There must be at least one value.
double quantile(std::vector<std::pair<double, double>> value_and_weight, double share);
// Summarises the errors of training steps, together with those of the constant-MFU baseline.
ErrorSummary summarise(const std::string& source, std::span<const ScoredStep> steps);

// Returns one summary of the errors of training steps for each machine. Every row has the same
// weight.
std::vector<ErrorSummary> summarise_machines(std::span<const ScoredStep> steps);
// Returns one summary of the errors of peak memory for each source that publishes peak memory.
std::vector<ErrorSummary> summarise_memory(std::span<const ScoredStep> steps);
std::vector<FitChecks> check_fits(const ValidationScores& scores);
// Returns one summary for each cluster, named like "2 x p4de.24xlarge". It covers the collectives
// of `long_bytes` bytes and more, whose bandwidth matters, or the shorter ones, whose latency
// matters.
constexpr double long_bytes = 1 << 20;
enum class Lengths : std::uint8_t { longer, shorter };
std::vector<ErrorSummary> summarise(std::span<const ScoredCollective> collectives, Lengths lengths);

// Called with the number of rows that are done and of all rows.
using Progress = std::function<void(std::size_t done, std::size_t all)>;
// Predicts and scores all rows. Rows that cannot be predicted are listed as skipped. `load` returns
// the machine of a name.
ValidationScores score(std::span<const Evidence> evidence, const Progress& progress = {},
                       const MachineLoader& load = load_known_machine);

}  // namespace meshwright::sim
