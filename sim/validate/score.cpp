#include "sim/validate/score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "sim/planner/clusters.h"
#include "sim/predict/predict.h"
#include "sim/validate/largest_batch.h"

namespace meshwright {

namespace {

// The value below which `share` of the sorted values lie, linear between ranks.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

class Scorer {
 public:
  Scorer(std::span<const Evidence> evidence, const Progress& progress)
      : evidence_(evidence), progress_(progress) {
    for (const Evidence& each : evidence)
      all_ += each.steps.size() + each.collectives.size() + each.largest_batches.size();
  }

  ValidationScores run() {
    for (const Evidence& each : evidence_) score_source(each);
    score_.overall = summarise("overall", score_.steps);
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
        const BatchPair predicted = predict_largest_batch(row, machine(row.machine));
        add_batch(evidence, row, false, predicted.native, row.native, native);
        add_batch(evidence, row, true, predicted.compiled, row.compiled, compiled);
      } catch (const InputError& error) {
        score_.skipped.push_back({row.id, error.what()});
      }
      step_done();
    }
    if (!native.empty()) score_.sources.push_back(summarise(evidence.source + " native", native));
    if (!compiled.empty())
      score_.sources.push_back(summarise(evidence.source + " compiled", compiled));
  }

  void add_batch(const Evidence& evidence, const LargestBatchRow& row, bool compiled, int predicted,
                 int measured, std::vector<Pair>& pairs) {
    score_.batches.push_back(
        {row.id, evidence.source, row.model, row.machine, compiled, predicted, measured});
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
    return machines_.emplace(name, load_known_machine(name)).first->second;
  }

  // Rows of one model and plan, which differ in the cluster alone, come one after the other in most
  // files; with one stage the Programs do not depend on the cluster.
  const Prepared& prepared(const Job& job, const Plan& plan, const std::string& key,
                           const Cluster& cluster) {
    const bool same = last_ && key == last_key_ && plan.parallelism.pipeline == 1;
    if (!same) last_ = std::make_unique<Prepared>(prepare(job.model, plan, cluster));
    last_key_ = key;
    return *last_;
  }

  ScoredStep predict_step(const Evidence& evidence, const StepRow& row) {
    const nlohmann::json value = parse_json(row.job, row.id);
    const Job job = read_job(value, row.id, ".", machine_facts);
    const std::string name = machines_of(job.cluster).front();
    const Cluster cluster =
        make_cluster(job.cluster, machine(name), counts_of(job.cluster).front());
    const Plan plan = settle(job, cluster.ranks(), machine_facts(cluster.machine));
    const std::string key = value.at("model").dump() + to_json(plan).dump();
    const Prediction prediction = predict(prepared(job, plan, key, cluster), cluster);
    ScoredStep scored;
    scored.id = row.id;
    scored.source = evidence.source;
    scored.predicted_step_time_s = prediction.step_time_s;
    scored.measured_step_time_s = row.step_time_s;
    scored.predicted_peak_memory_bytes = static_cast<double>(prediction.peak_memory_bytes);
    scored.measured_peak_memory_bytes = row.peak_memory_bytes;
    scored.fits = prediction.fits;
    scored.predicted_mfu = prediction.mfu;
    return scored;
  }

  ScoredCollective predict_collective(const Evidence& evidence, const CollectiveRow& row) {
    Cluster cluster;
    cluster.machine = machine(row.machine);
    cluster.hosts = row.count;
    cluster.processes_per_host = row.gpus / row.count;
    if (cluster.processes_per_host > cluster.machine.gpus)
      throw InputError(row.id + ": /gpus: more than " + row.machine + " has");
    std::vector<int> ranks;
    for (int rank = 0; rank < row.gpus; ++rank) ranks.push_back(rank);
    const Seconds time = collective_time(Topology(cluster), row.kind, {row.bytes}, {ranks});
    return {row.id, evidence.source, time.value, row.time_s};
  }

  std::span<const Evidence> evidence_;
  const Progress& progress_;
  std::size_t done_ = 0, all_ = 0;
  ValidationScores score_;
  std::map<std::string, Machine> machines_;
  std::unique_ptr<Prepared> last_;
  std::string last_key_;
};

}  // namespace

ErrorSummary summarise(const std::string& source, std::span<const Pair> pairs) {
  ErrorSummary summary;
  summary.source = source;
  summary.rows = static_cast<int>(pairs.size());
  if (pairs.empty()) return summary;
  std::vector<double> errors, sizes;
  for (const Pair& pair : pairs) {
    errors.push_back(pair.predicted / pair.measured - 1);
    sizes.push_back(std::abs(errors.back()));
  }
  summary.mape = mean(sizes);
  summary.median_ape = quantile(sizes, 0.5);
  summary.p90_ape = quantile(sizes, 0.9);
  summary.bias = mean(errors);
  return summary;
}

ErrorSummary summarise(const std::string& source, std::span<const ScoredStep> steps) {
  std::vector<Pair> pairs;
  std::vector<double> mfus;
  for (const ScoredStep& step : steps) {
    pairs.push_back({step.predicted_step_time_s, step.measured_step_time_s});
    mfus.push_back(step.measured_mfu());
  }
  ErrorSummary summary = summarise(source, pairs);
  if (steps.empty()) return summary;
  const double constant = quantile(mfus, 0.5);
  summary.constant_mfu = constant;
  std::vector<double> errors;
  // With a constant MFU the predicted time is measured time * measured MFU / constant.
  for (const double mfu : mfus) errors.push_back(std::abs(mfu / constant - 1));
  summary.constant_mfu_mape = mean(errors);
  return summary;
}

ValidationScores score(std::span<const Evidence> evidence, const Progress& progress) {
  return Scorer(evidence, progress).run();
}

}  // namespace meshwright
