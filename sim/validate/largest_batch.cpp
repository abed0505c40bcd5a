#include "sim/validate/largest_batch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/job.h"
#include "sim/compile/largest_batch.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/clusters.h"

namespace meshwright::sim {

namespace {

// Returns the dropout in the config.json of the models that can be predicted.
double dropout_of(const std::string& model) {
  return model == "albert-base-v2" ? 0 : 0.1;  // github google-research/albert#23
}

Job job_of(const LargestBatchRow& row, const Machine& machine) {
  const std::string model = zoo_model_of(row.model);
  json training = {{"global_batch", machine.gpus},
                   {"micro_batch", 1},
                   {"sequence_length", row.sequence_length},
                   {"precision", row.precision},
                   {"attention", "unfused"},
                   {"dropout", dropout_of(model)},
                   {"compiler", "full"}};
  if (load_model(model, ".").head == Head::mlm)
    training["predicted_positions"] = row.sequence_length;
  return read_job(
      {{"model", model}, {"training", training}, {"cluster", {{"machine", row.machine}}}}, row.id,
      ".", machine_facts);
}

// Returns the number of tokens that an encoder reads if the data set has texts and their summaries,
// or none for other data. Then the row's sequence length is that of the summaries: the example of
// the library transformers truncates summaries at 128 tokens and texts at 1024 (max_target_length,
// max_source_length), and pads both to that.
std::optional<int> source_length_of(const LargestBatchRow& row, const Model& model) {
  constexpr int longest_text = 1024;
  constexpr std::string_view summarized[] = {"xsum", "cnn_dailymail", "samsum"};
  if (!model.has_decoder() || std::ranges::find(summarized, row.dataset) == std::end(summarized))
    return std::nullopt;
  return longest_text;
}

// Returns whether a framework such as "transformers-4.11.0-pytorch-1.9.0" has a version of PyTorch
// before `version`. The versions of torch_xla have the same numbers.
bool is_before(const std::string& framework, std::pair<int, int> version) {
  const std::size_t at = framework.find("pytorch-");
  int major = 0, minor = 0;
  if (at == std::string::npos ||
      std::sscanf(framework.c_str() + at, "pytorch-%d.%d", &major, &minor) != 2)
    return false;
  return std::pair(major, minor) < version;
}

}  // namespace

std::string zoo_model_of(const std::string& published) {
  // Without a "/", find() returns npos, and npos + 1 is 0.
  std::string name = published.substr(published.find('/') + 1);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* derived : {"-finetuned-", "-distilled-"})
    name = name.substr(0, name.find(derived));
  if (!is_zoo_name(name)) throw InputError("no model '" + name + "' in the zoo");
  return name;
}

BatchPrediction predict_largest_batch(const LargestBatchRow& row, const Machine& machine) {
  const Job job = job_of(row, machine);
  Cluster cluster = make_cluster(job.cluster, machine, 1);
  const bool several = cluster.ranks() > 1;
  const double eager_limit = framework_limit_bytes(machine, MemoryOf::pytorch, several);
  const double compiled_limit = framework_limit_bytes(machine, MemoryOf::xla, several);
  const Plan plan = settle(job, cluster.ranks(), facts_of(machine));
  const std::optional<int> source_length = source_length_of(row, job.model);
  const auto graph_of = [&](int batch) {
    Training training = plan.training;
    training.micro_batch = batch;
    Graph graph = build_graph(job.model, training);
    return source_length ? with_source_length(std::move(graph), *source_length) : graph;
  };
  FrameworkTraits framework = framework_traits(MemoryOf::pytorch, several);
  framework.softmax_keeps_input = is_before(row.framework, {1, 11});
  FrameworkTraits compiler = framework_traits(MemoryOf::xla, several);
  compiler.keeps_random_bits = is_before(row.framework, {1, 13});
  const auto largest = [&](const FrameworkTraits& of, double limit) {
    const auto fit = [&](int batch) { return fit_of_framework(graph_of(batch), of, limit); };
    return largest_that_fits(static_cast<std::int64_t>(limit), fit).micro_batch;
  };
  cluster.machine.gpu.memory_bytes = std::floor(compiled_limit);
  cluster.machine.overheads = {};
  BatchPrediction prediction{
      largest(framework, eager_limit), largest(compiler, compiled_limit), {}};
  if (!source_length) prediction.full = largest_micro_batch(job.model, plan, cluster).micro_batch;
  return prediction;
}

}  // namespace meshwright::sim
