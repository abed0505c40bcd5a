#include "sim/validate/case.h"

#include <algorithm>

#include "models/core/fields.h"
#include "models/core/json.h"
#include "sim/planner/clusters.h"

namespace meshwright::sim {

using nlohmann::literals::operator""_json_pointer;

namespace {

// Adds to a job what published recipes of Megatron-Core have if they do not say otherwise. Models
// with experts have the usual capacity of experts per rank. Ranks that share experts in groups have
// whole experts, so their expert tensor degree is 1.
void state_experts(json& job) {
  json& model = job.at("model");
  if (model.is_object() && !model.contains("expert_rank_capacity_factor") &&
      (model.contains("num_experts") || model.contains("n_routed_experts") ||
       model.contains("num_local_experts")))
    model["expert_rank_capacity_factor"] = Model::usual_rank_capacity_factor;
  if (!job.contains("parallelism") || !job.at("parallelism").is_object()) return;
  json& parallelism = job.at("parallelism");
  const auto degree = [&](const char* key) {
    return parallelism.contains(key) && parallelism.at(key).is_number_integer()
               ? parallelism.at(key).get<std::int64_t>()
               : 1;
  };
  if (degree("expert") > 1 && degree("tensor") > 1 && !parallelism.contains("expert_tensor"))
    parallelism["expert_tensor"] = 1;
}

// Returns the job of a row, with what follows from its source. If a source does not say which fused
// kernel computed attention, its framework chose one for the GPU. A job that leaves out the key
// means the same, so an assumed fused kernel is removed.
json stated(const StepRow& row) {
  json job = parse_json(row.job, row.id);
  const bool is_assumed = std::ranges::count(row.assumed, "training.attention") > 0;
  const auto key = "/training/attention"_json_pointer;
  if (is_assumed && job.contains(key) && job.at(key) != "unfused")
    job.at("/training"_json_pointer).erase("attention");
  json& training = job["training"];
  if (row.framework != Framework::meshwright && !training.contains("framework"))
    training["framework"] = framework_words()[static_cast<std::size_t>(row.framework)];
  const bool has_assumed_masters = std::ranges::count(row.assumed, "training.master_weights") > 0;
  const bool keeps_16_bits =
      row.states == StatesOfSource::in_16_bits ||
      (row.states == StatesOfSource::in_16_bits_if_assumed && has_assumed_masters);
  const bool is_pure = keeps_16_bits && training.value("precision", "") == "bf16";
  if (is_pure && !training.contains("master_weights")) training["master_weights"] = "none";
  if (is_pure && !training.contains("moments_precision")) training["moments_precision"] = "bf16";
  state_experts(job);
  return job;
}

// Returns whether gradients are overwritten with zeros before each step, as Megatron-LM does with
// its buffers. PyTorch's optimizers drop gradients instead (zero_grad with set_to_none), and the
// first backward pass allocates them anew.
bool clears_gradients(Framework framework) { return !is_of_pytorch(framework); }

}  // namespace

// Reads the name from the JSON if the job has a single one. The rules about jobs would reject a
// machine without a known profile, but it may be the machine whose profile the caller has.
std::string machine_of(const StepRow& row) {
  const json job = parse_json(row.job, row.id);
  const auto key = "/cluster/machine"_json_pointer;
  if (job.contains(key) && job.at(key).is_string()) return job.at(key).get<std::string>();
  return machines_of(read_job(job, row.id, ".", machine_facts).cluster).front();
}

StepCase case_of(const StepRow& row, const Machine& machine) {
  const json value = stated(row);
  StepCase result;
  result.job = read_job(value, row.id, ".", [&](const std::string&) { return facts_of(machine); });
  result.cluster = make_cluster(result.job.cluster, machine, counts_of(result.job.cluster).front());
  result.plan = settle(result.job, result.cluster.ranks(), facts_of(machine));
  // Values that a row does not state are as in Megatron-LM and its relatives: every stage has the
  // same number of blocks, gradients of fp16 are reduced in fp16, and weights are gathered by one
  // call of NCCL.
  Parallelism& p = result.plan.parallelism;
  if (!value.contains("/parallelism/hierarchical_gather"_json_pointer))
    p.hierarchical_gather = false;
  if (!value.contains("/parallelism/partition"_json_pointer)) p.partitioner = Partitioner::even;
  // Transformer Engine, from which this overlap comes, splits matmuls with all-gathers and
  // reduce-scatters into four chunks.
  if (p.overlap_tensor && p.tensor > 1 &&
      !value.contains("/parallelism/tensor_chunks"_json_pointer))
    p.tensor_chunks = 4;
  // A row with ZeRO 3, context groups and a full compiler is from PyTorch, which applies FSDP over
  // whole context groups.
  if (p.zero_stage == 3 && p.context > 1 && result.plan.training.compiler == CompilerLevel::full)
    p.context_of_pytorch = true;
  Training& t = result.plan.training;
  if (t.precision == Precision::fp16 &&
      !value.contains("/training/gradient_reduce_precision"_json_pointer))
    t.gradient_reduce = Dtype::f16;
  // Megatron-LM computes matmuls of experts in 8 or 4 bits too, as those of all linear layers of
  // Transformer Engine.
  if (quantizes(t.precision) && result.job.model.experts > 0 &&
      !value.contains("/training/fp8_experts"_json_pointer))
    t.fp8_experts = true;
  // In Megatron-LM and its relatives, the loss of language models is one kernel. It neither
  // consists of several kernels, as in PyTorch, nor is it fused with the head, as this project's
  // compiler does. torchtitan's loss consisted of several kernels even if blocks were compiled. It
  // has ChunkedCELoss since April 2026 only, and no stack of software begins there.
  const bool has_eager_loss = t.framework == Framework::torchtitan ||
                              (is_of_pytorch(t.framework) && t.compiler == CompilerLevel::none);
  if (!value.contains("/training/passes_off"_json_pointer)) {
    t.passes_off = {"fuse_loss"};
    if (!has_eager_loss) t.passes_off.emplace_back("eager_loss");
  }
  // The compilers whose steps were measured (XLA, torch.compile) do what
  // training.rematerialize_rows asks for, whether memory is short or not.
  if (t.compiler == CompilerLevel::full &&
      !value.contains("/training/rematerialize_rows"_json_pointer))
    t.rematerialize_rows = true;
  t.clears_gradients = clears_gradients(t.framework);
  result.key = value.at("model").dump() + to_json(result.plan).dump();
  json per_gpu = to_json(result.plan);
  per_gpu.at("training").erase("global_batch");
  for (const char* key : {"data", "shard"}) per_gpu.at("parallelism").erase(key);
  result.per_gpu = value.at("model").dump() + result.cluster.machine.name + per_gpu.dump();
  const Training& training = result.plan.training;
  result.question =
      value.at("model").dump() + result.cluster.machine.name +
      std::to_string(training.global_batch) + "," + std::to_string(training.sequence_length) + "," +
      std::to_string(result.cluster.ranks()) + std::string(name_of(training.precision));
  return result;
}

}  // namespace meshwright::sim
