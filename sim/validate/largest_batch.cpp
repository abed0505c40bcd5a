#include "sim/validate/largest_batch.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/job.h"
#include "sim/compile/autocast_memory.h"
#include "sim/compile/largest_batch.h"
#include "sim/planner/clusters.h"

namespace meshwright {

namespace {

using nlohmann::json;

// What libraries leave of a GPU to a framework's allocator.
double usable_bytes(const Machine& machine, bool several) {
  const FrameworkMemory& framework = *machine.framework;
  const LibraryOverheads& overheads = machine.overheads;
  return framework.capacity_bytes - framework.context_bytes - overheads.workspace_bytes -
         (several ? overheads.communicator_bytes : 0);
}

// As the config.json of the models that can be predicted have it.
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

// Tokens of what an encoder reads of a data set of texts and their summaries. A row's sequence
// length is that of the summaries: transformers' example cuts them at 128 tokens, the texts at 1024
// (max_target_length, max_source_length), and pads both to that.
std::optional<int> source_length_of(const LargestBatchRow& row, const Model& model) {
  constexpr int longest_text = 1024;
  constexpr std::string_view summarized[] = {"xsum", "cnn_dailymail", "samsum"};
  if (!model.has_decoder() || std::ranges::find(summarized, row.dataset) == std::end(summarized))
    return std::nullopt;
  return longest_text;
}

// Whether "transformers-4.11.0-pytorch-1.9.0" names an earlier version; torch_xla's are the same.
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
  std::string name = published.substr(published.find('/') + 1);  // npos + 1 is 0
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* derived : {"-finetuned-", "-distilled-"})
    name = name.substr(0, name.find(derived));
  if (!is_zoo_name(name)) throw InputError("no model '" + name + "' in the zoo");
  return name;
}

BatchPrediction predict_largest_batch(const LargestBatchRow& row, const Machine& machine) {
  if (!machine.framework)
    throw InputError(machine.name +
                     ": its profile does not say what a framework finds of its memory");
  const Job job = job_of(row, machine);
  Cluster cluster = make_cluster(job.cluster, machine, 1);
  const bool several = cluster.ranks() > 1;
  const double usable = usable_bytes(machine, several);
  const auto all = static_cast<std::int64_t>(usable);
  // Of what a compiler lays out in advance no more is lost than an allocator loses at its best.
  const auto laid_out = static_cast<std::int64_t>(usable * (1 - machine.framework->allocator_loss));
  const Plan plan = settle(job, cluster.ranks(), facts_of(machine));
  const std::optional<int> source_length = source_length_of(row, job.model);
  const auto graph_of = [&](int batch) {
    Training training = plan.training;
    training.micro_batch = batch;
    Graph graph = build_graph(job.model, training);
    return source_length ? with_source_length(std::move(graph), *source_length) : graph;
  };
  const Framework framework{.gradient_buckets = several,
                            .softmax_keeps_input = is_before(row.framework, {1, 11})};
  // torch_xla reduces gradients where they are, when no activation is left.
  const Framework compiler{.execution = Execution::compiled,
                           .keeps_random_bits = is_before(row.framework, {1, 13})};
  const auto eager = [&](int batch) {
    const Graph graph = graph_of(batch);
    return Fit{autocast_fits(graph, framework, all), autocast_peak_bytes(graph, framework)};
  };
  const auto compiled = [&](int batch) {
    const std::int64_t bytes = autocast_peak_bytes(graph_of(batch), compiler);
    return Fit{bytes <= laid_out, bytes};
  };
  cluster.machine.gpu.memory_bytes = static_cast<double>(laid_out);
  cluster.machine.overheads = {};
  BatchPrediction prediction{largest_that_fits(all, eager).micro_batch,
                             largest_that_fits(laid_out, compiled).micro_batch,
                             {}};
  if (!source_length) prediction.full = largest_micro_batch(job.model, plan, cluster).micro_batch;
  return prediction;
}

}  // namespace meshwright
