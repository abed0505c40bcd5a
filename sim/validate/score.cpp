#include "sim/validate/score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "models/core/error.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/clusters.h"
#include "sim/predict/predict.h"
#include "sim/predict/target.h"
#include "sim/validate/case.h"
#include "sim/validate/collective_case.h"
#include "sim/validate/framework_keeps.h"
#include "sim/validate/largest_batch.h"

namespace meshwright::sim {

namespace {

using Weighted = std::vector<std::pair<double, double>>;  // pairs of a value and its weight

double mean(const Weighted& values) {
  double sum = 0, weights = 0;
  for (const auto& [value, weight] : values) sum += value * weight, weights += weight;
  return sum / weights;
}

class Scorer {
 public:
  Scorer(std::span<const Evidence> evidence, const Progress& progress, const MachineLoader& load)
      : evidence_(evidence), progress_(progress), load_(load) {
    for (const Evidence& each : evidence)
      all_ += each.steps.size() + each.collectives.size() + each.largest_batches.size();
  }

  ValidationScores run() {
    for (const Evidence& each : evidence_) score_source(each);
    score_.overall = summarise("overall", score_.steps);
    score_.scaling = scaling_pairs(score_.steps);
    score_.machines = summarise_machines(score_.steps);
    score_.memory = summarise_memory(score_.steps);
    score_.long_collectives = summarise(score_.collectives, Lengths::longer);
    score_.short_collectives = summarise(score_.collectives, Lengths::shorter);
    score_.fits = check_fits(score_);
    return std::move(score_);
  }

 private:
  void step_done() {
    if (progress_) progress_(++done_, all_);
  }

  void score_source(const Evidence& evidence) {
    const std::size_t first_step = score_.steps.size();
    const std::size_t first_collective = score_.collectives.size();
    for (const StepRow& row : evidence.steps) {
      try {
        score_.steps.push_back(predict_step(evidence, row));
      } catch (const InputError& error) {
        score_.skipped.push_back({row.id, error.what()});
      }
      step_done();
    }
    for (const CollectiveRow& row : evidence.collectives) {
      try {
        score_.collectives.push_back(predict_collective(evidence, row));
      } catch (const InputError& error) {
        score_.skipped.push_back({row.id, error.what()});
      }
      step_done();
    }
    score_batches(evidence);
    add_summaries(evidence.source, first_step, first_collective);
  }

  void score_batches(const Evidence& evidence) {
    std::vector<Pair> native, compiled;
    for (const LargestBatchRow& row : evidence.largest_batches) {
      try {
        const BatchPrediction predicted = predict_largest_batch(row, machine(row.machine));
        add_batch(evidence, row, false, {predicted.native, row.native}, native);
        add_batch(evidence, row, true, {predicted.compiled, row.compiled}, compiled);
        score_.batches.back().full_max_batch = predicted.full;
      } catch (const InputError& error) {
        score_.skipped.push_back({row.id, error.what()});
      }
      step_done();
    }
    if (!native.empty()) score_.sources.push_back(summarise(evidence.source + " native", native));
    if (!compiled.empty())
      score_.sources.push_back(summarise(evidence.source + " compiled", compiled));
  }

  void add_batch(const Evidence& evidence, const LargestBatchRow& row, bool is_compiled,
                 std::pair<int, int> batch, std::vector<Pair>& pairs) {
    const auto [predicted, measured] = batch;
    score_.batches.push_back(
        {row.id, evidence.source, row.model, row.machine, is_compiled, predicted, measured, {}});
    pairs.push_back({static_cast<double>(predicted), static_cast<double>(measured)});
  }

  void add_summaries(const std::string& source, std::size_t first_step,
                     std::size_t first_collective) {
    const auto steps = std::span<const ScoredStep>(score_.steps).subspan(first_step);
    if (!steps.empty()) score_.sources.push_back(summarise(source, steps));
    std::vector<Pair> pairs;
    for (std::size_t i = first_collective; i < score_.collectives.size(); ++i)
      pairs.push_back(
          {score_.collectives[i].predicted_time_s, score_.collectives[i].measured_time_s});
    if (!pairs.empty()) score_.sources.push_back(summarise(source, pairs));
  }

  const Machine& machine(const std::string& name) {
    const auto found = machines_.find(name);
    if (found != machines_.end()) return found->second;
    return machines_.emplace(name, load_(name)).first->second;
  }

  // Returns the compiled plan of a row, which is reused for the next row if possible. In most
  // files, rows of one model and plan that differ only in the cluster come one after the other.
  // With one stage, the Programs do not depend on the cluster.
  const Compiled& compiled(const Job& job, const Plan& plan, const std::string& key,
                           const Cluster& cluster) {
    const bool same = last_ && key == last_key_ && plan.parallelism.pipeline == 1;
    if (!same)
      last_ =
          std::make_unique<Compiled>(compile(job.model, plan, target_of(cluster, plan.training)));
    last_key_ = key;
    return *last_;
  }

  // Returns the bytes of the predicted peak that the published peak does not cover.
  static double unseen_bytes(const StepRow& row, const Cluster& cluster) {
    const LibraryOverheads& overheads = cluster.machine.overheads;
    if (row.peak_memory_of == PeakMemoryOf::device) return 0;
    return overheads.context_bytes + (cluster.ranks() > 1 ? overheads.communicator_bytes : 0) +
           (row.peak_memory_of == PeakMemoryOf::compiler ? overheads.workspace_bytes : 0);
  }

  ScoredStep predict_step(const Evidence& evidence, const StepRow& row) {
    const StepCase step = case_of(row, machine(machine_of(row)));
    const Compiled& programs = compiled(step.job, step.plan, step.key, step.cluster);
    const Prediction prediction =
        predict(programs, step.cluster,
                {.framework = framework_use(step.job.model, step.plan.training, step.cluster)});
    ScoredStep scored;
    scored.id = row.id;
    scored.source = evidence.source;
    scored.predicted_step_time_s = prediction.step_time_s;
    scored.measured_step_time_s = row.step_time_s;
    scored.predicted_peak_memory_bytes =
        static_cast<double>(peak_with_framework(evidence.title, programs, prediction)) -
        unseen_bytes(row, step.cluster);
    scored.measured_peak_memory_bytes = row.peak_memory_bytes;
    scored.fits = prediction.fits;
    scored.machine = step.cluster.machine.name;
    scored.gpu = step.cluster.machine.gpu.name;
    scored.hosts = step.cluster.hosts;
    scored.ranks = step.cluster.ranks();
    scored.sequences = static_cast<double>(step.plan.training.global_batch);
    scored.question = step.question;
    scored.plan = step.key;
    scored.per_gpu = step.per_gpu;
    if (evidence.independent_rows)
      scored.weight = std::min(1.0, static_cast<double>(*evidence.independent_rows) /
                                        static_cast<double>(evidence.steps.size()));
    scored.interval = prediction.interval;
    scored.predicted_mfu = prediction.mfu;
    return scored;
  }

  ScoredCollective predict_collective(const Evidence& evidence, const CollectiveRow& row) {
    const Seconds time = predicted_time(row, cluster_of(row, machine(row.machine)));
    return {row.id, evidence.source, time.value, row.time_s, row.machine, row.count, row.bytes};
  }

  std::span<const Evidence> evidence_;
  const Progress& progress_;
  const MachineLoader& load_;
  std::size_t done_ = 0, all_ = 0;
  ValidationScores score_;
  std::map<std::string, Machine> machines_;
  std::unique_ptr<Compiled> last_;
  std::string last_key_;
};

}  // namespace

// Places each value in the middle of its weight. Between two values the quantile is linear.
double quantile(Weighted values, double share) {
  std::ranges::sort(values);
  double all = -(values.front().second + values.back().second) / 2;
  for (const auto& [value, weight] : values) all += weight;
  double before = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double between = (values[i - 1].second + values[i].second) / 2;
    if (before + between >= share * all) {
      const double place = between > 0 ? (share * all - before) / between : 0;
      return values[i - 1].first + place * (values[i].first - values[i - 1].first);
    }
    before += between;
  }
  return values.back().first;
}

ErrorSummary summarise(const std::string& source, std::span<const Pair> pairs) {
  ErrorSummary summary;
  summary.source = source;
  summary.rows = static_cast<int>(pairs.size());
  if (pairs.empty()) return summary;
  Weighted errors, sizes;
  for (const Pair& pair : pairs) {
    errors.emplace_back(pair.predicted / pair.measured - 1, pair.weight);
    sizes.emplace_back(std::abs(errors.back().first), pair.weight);
  }
  summary.mape = mean(sizes);
  summary.median_ape = quantile(sizes, 0.5);
  summary.p90_ape = quantile(sizes, 0.9);
  summary.bias = mean(errors);
  return summary;
}

namespace {

struct PlanTimes {
  double measured_step_time_s = 0, predicted_step_time_s = 0;
};

// Returns the median step times of one plan that was measured several times.
PlanTimes median_of(std::vector<PlanTimes> steps) {
  const auto middle = [&](double PlanTimes::*time) {
    std::ranges::sort(steps, {}, time);
    const std::size_t half = steps.size() / 2;
    return steps.size() % 2 ? steps[half].*time : (steps[half - 1].*time + steps[half].*time) / 2;
  };
  return {middle(&PlanTimes::measured_step_time_s), middle(&PlanTimes::predicted_step_time_s)};
}

// The order of the plans for one question, predicted against measured: how many pairs of plans are
// in the right order, and how much slower than the fastest plan, as a fraction, the plan is that
// was predicted to be the fastest.
struct Choice {
  double pairs_in_order = 0, pairs = 0, regret = 0;
};

Choice choose(const std::vector<PlanTimes>& plans) {
  Choice choice;
  for (std::size_t a = 0; a < plans.size(); ++a)
    for (std::size_t b = a + 1; b < plans.size(); ++b) {
      const double measured = plans[a].measured_step_time_s - plans[b].measured_step_time_s;
      const double predicted = plans[a].predicted_step_time_s - plans[b].predicted_step_time_s;
      if (measured == 0) continue;
      ++choice.pairs;
      choice.pairs_in_order += measured * predicted > 0;
    }
  const auto least = [&](double PlanTimes::*time) {
    return *std::ranges::min_element(plans, {}, time);
  };
  choice.regret = least(&PlanTimes::predicted_step_time_s).measured_step_time_s /
                      least(&PlanTimes::measured_step_time_s).measured_step_time_s -
                  1;
  return choice;
}

void add_choices(std::span<const ScoredStep> steps, ErrorSummary& summary) {
  constexpr std::size_t fewest_plans = 3;
  std::map<std::string, std::map<std::string, std::vector<PlanTimes>>> questions;
  for (const ScoredStep& step : steps)
    questions[step.source + step.question][step.plan].push_back(
        {step.measured_step_time_s, step.predicted_step_time_s});
  Choice all;
  int count = 0;
  for (const auto& [question, steps_of_plans] : questions) {
    if (steps_of_plans.size() < fewest_plans) continue;
    std::vector<PlanTimes> plans;
    for (const auto& [plan, times] : steps_of_plans) plans.push_back(median_of(times));
    const Choice choice = choose(plans);
    all.pairs += choice.pairs;
    all.pairs_in_order += choice.pairs_in_order;
    all.regret += choice.regret;
    ++count;
  }
  if (all.pairs == 0) return;
  summary.pairs_in_order = all.pairs_in_order / all.pairs;
  summary.regret = all.regret / count;
}

}  // namespace

ErrorSummary summarise(const std::string& source, std::span<const ScoredStep> steps) {
  std::vector<Pair> pairs;
  Weighted mfus, inside;
  for (const ScoredStep& step : steps) {
    pairs.push_back({step.predicted_step_time_s, step.measured_step_time_s, step.weight});
    mfus.emplace_back(step.measured_mfu(), step.weight);
    if (step.interval)
      inside.emplace_back(step.measured_step_time_s >= step.interval->low_s &&
                                  step.measured_step_time_s <= step.interval->high_s
                              ? 1
                              : 0,
                          step.weight);
  }
  ErrorSummary summary = summarise(source, pairs);
  if (steps.empty()) return summary;
  const double constant = quantile(mfus, 0.5);
  summary.constant_mfu = constant;
  if (!inside.empty()) summary.inside = mean(inside);
  add_choices(steps, summary);
  Weighted errors;
  // With a constant MFU the predicted time is measured time * measured MFU / constant.
  for (const auto& [mfu, weight] : mfus) errors.emplace_back(std::abs(mfu / constant - 1), weight);
  summary.constant_mfu_mape = mean(errors);
  return summary;
}

std::vector<ErrorSummary> summarise_machines(std::span<const ScoredStep> steps) {
  std::map<std::string, std::vector<ScoredStep>> machines;
  for (const ScoredStep& step : steps) {
    machines[step.machine].push_back(step);
    machines[step.machine].back().weight = 1;
  }
  std::vector<ErrorSummary> summaries;
  for (const auto& [machine, of_it] : machines) summaries.push_back(summarise(machine, of_it));
  return summaries;
}

std::vector<ErrorSummary> summarise_memory(std::span<const ScoredStep> steps) {
  std::vector<ErrorSummary> summaries;
  for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    std::vector<Pair> pairs;
    for (; end < steps.size() && steps[end].source == steps[begin].source; ++end)
      if (const std::optional<double>& measured = steps[end].measured_peak_memory_bytes)
        pairs.push_back({steps[end].predicted_peak_memory_bytes, *measured, steps[end].weight});
    if (!pairs.empty()) summaries.push_back(summarise(steps[begin].source, pairs));
  }
  return summaries;
}

std::vector<ErrorSummary> summarise(std::span<const ScoredCollective> collectives,
                                    Lengths lengths) {
  std::map<std::string, std::vector<Pair>> clusters;
  for (const ScoredCollective& each : collectives)
    if ((each.bytes >= long_bytes) == (lengths == Lengths::longer))
      clusters[std::to_string(each.hosts) + " x " + each.machine].push_back(
          {each.predicted_time_s, each.measured_time_s});
  std::vector<ErrorSummary> summaries;
  for (const auto& [cluster, pairs] : clusters) summaries.push_back(summarise(cluster, pairs));
  return summaries;
}

std::vector<FitChecks> check_fits(const ValidationScores& scores) {
  std::vector<FitChecks> checks;
  const auto of = [&](const std::string& source) -> FitChecks& {
    if (checks.empty() || checks.back().source != source) checks.push_back({.source = source});
    return checks.back();
  };
  for (const ScoredStep& step : scores.steps) {
    ++of(step.source).ran;
    of(step.source).said_not_to_fit += !step.fits;
  }
  for (const ScoredBatch& batch : scores.batches) {
    ++of(batch.source).largest;
    of(batch.source).said_too_large +=
        batch.predicted_max_batch >= std::ceil(too_large * batch.measured_max_batch);
  }
  return checks;
}

ValidationScores score(std::span<const Evidence> evidence, const Progress& progress,
                       const MachineLoader& load) {
  return Scorer(evidence, progress, load).run();
}

}  // namespace meshwright::sim
