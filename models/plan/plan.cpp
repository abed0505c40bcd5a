#include "models/plan/plan.h"

#include <nlohmann/json.hpp>

namespace meshwright {

using nlohmann::json;

namespace {

template <class Enum>
const std::string& word(const std::vector<std::string>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

const char* reduce_word(Dtype dtype) {
  if (dtype == Dtype::f16) return "fp16";
  return dtype == Dtype::bf16 ? "bf16" : "fp32";
}

json to_json(const LossScale& scale) {
  if (!scale.dynamic) return {{"static", scale.initial}};
  return {{"initial", scale.initial},
          {"factor", scale.factor},
          {"window", scale.window},
          {"minimum", scale.minimum},
          {"hysteresis", scale.hysteresis}};
}

json overlap_words(const Parallelism& parallelism) {
  json words = json::array();
  if (parallelism.overlap_gradients) words.push_back("gradients");
  if (parallelism.overlap_parameters) words.push_back("parameters");
  if (parallelism.overlap_tensor) words.push_back("tensor");
  return words;
}

json partition_value(const Parallelism& parallelism) {
  switch (parallelism.partitioner) {
    case Partitioner::chain:
      return "auto";
    case Partitioner::tree:
      return "tree";
    case Partitioner::metis:
      return "metis";
    case Partitioner::even:
      return "even";
    case Partitioner::manual:
      return parallelism.manual_stage;
  }
  return "auto";
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ScheduleInfo& info : schedule_kinds()) all.emplace_back(info.name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& recompute_names() {
  static const std::vector<std::string> names = {"none", "selective",  "full",
                                                 "each", "contiguous", "group_N"};
  return names;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"adamw", "adam", "lamb", "sgd"};
  return names;
}

const std::vector<std::string>& attention_names() {
  static const std::vector<std::string> names = {"unfused", "flash", "flash2"};
  return names;
}

const std::vector<std::string>& tensor_layout_names() {
  static const std::vector<std::string> names = {"megatron", "speed", "memory"};
  return names;
}

const std::vector<std::string>& offload_names() {
  static const std::vector<std::string> names = {"none", "activations", "layers"};
  return names;
}

const std::vector<std::string>& compiler_names() {
  static const std::vector<std::string> names = {"none", "fused", "full"};
  return names;
}

const std::vector<std::string>& memory_of_names() {
  static const std::vector<std::string> names = {"engine", "pytorch", "xla"};
  return names;
}

const std::vector<std::string>& learning_rate_schedule_names() {
  static const std::vector<std::string> names = {"constant", "linear", "cosine"};
  return names;
}

std::string recompute_word(const Training& training) {
  if (training.recompute == Recompute::group)
    return "group_" + std::to_string(training.recompute_group);
  return word(recompute_names(), training.recompute);
}

json to_json(const Training& t) {
  json value = {
      {"global_batch", t.global_batch},
      {"micro_batch", t.micro_batch},
      {"sequence_length", t.sequence_length},
      {"precision", std::string(name_of(t.precision))},
      {"gradient_reduce_precision", reduce_word(t.gradient_reduce)},
      {"recompute", recompute_word(t)},
      {"recompute_fraction", t.recompute_fraction},
      {"attention", word(attention_names(), t.attention)},
      {"optimizer", word(optimizer_names(), t.optimizer)},
      {"compiler", word(compiler_names(), t.compiler)},
      {"memory_of", word(memory_of_names(), t.memory_of)},
      {"fuse_gradient_accumulation", t.fuse_gradient_accumulation},
      {"steps", t.steps},
      {"seed", t.seed},
      {"learning_rate", t.learning_rate},
      {"warmup_steps", t.warmup_steps},
      {"learning_rate_schedule", word(learning_rate_schedule_names(), t.learning_rate_schedule)},
      {"weight_decay", t.weight_decay},
      {"momentum", t.momentum},
      {"beta1", t.beta1},
      {"beta2", t.beta2},
      {"epsilon", t.epsilon},
      {"dropout", t.dropout}};
  if (!t.passes_off.empty()) value["passes_off"] = t.passes_off;
  if (!t.recompute_modules.empty()) value["recompute_modules"] = t.recompute_modules;
  if (t.recompute_budget) value["recompute_budget"] = *t.recompute_budget;
  if (t.predicted_positions > 0) value["predicted_positions"] = t.predicted_positions;
  if (t.gradient_clip > 0) value["gradient_clip"] = t.gradient_clip;
  if (t.loss_scale) value["loss_scale"] = to_json(*t.loss_scale);
  if (t.deterministic) value["deterministic"] = true;
  if (t.cuda_graph) value["cuda_graph"] = *t.cuda_graph;
  return value;
}

json to_json(const Parallelism& p) {
  json value = {{"pipeline", p.pipeline},
                {"tensor", p.tensor},
                {"data", p.data},
                {"shard", p.shard},
                {"context", p.context},
                {"expert", p.expert},
                {"virtual_stages", p.virtual_stages},
                {"schedule", word(schedule_names(), p.schedule)},
                {"sequence_parallel", p.sequence_parallel},
                {"zero_stage", p.zero_stage},
                {"overlap", overlap_words(p)},
                {"pipeline_scatter_gather", p.pipeline_scatter_gather},
                {"placement", p.placement},
                {"partition", partition_value(p)},
                {"memory_weight", p.memory_weight},
                {"tensor_layout", word(tensor_layout_names(), p.tensor_layout)},
                {"tensor_batch", p.tensor_batch_own ? "own" : "shared"},
                {"context_exchange", p.context_gathers ? "all_gather" : "p2p"},
                {"offload", word(offload_names(), p.offload)},
                {"shard_layout", p.shard_whole ? "whole" : "flat"},
                {"persistence_threshold", p.persistence_threshold},
                {"hierarchical_gather", p.hierarchical_gather}};
  if (p.reduce_bucket_bytes > 0) value["reduce_bucket_bytes"] = p.reduce_bucket_bytes;
  if (p.max_live_parameters > 0) value["max_live_parameters"] = p.max_live_parameters;
  if (p.active_microbatches > 0) value["active_microbatches"] = p.active_microbatches;
  if (p.offload_horizon > 0) value["offload_horizon"] = p.offload_horizon;
  return value;
}

json to_json(const Plan& plan) {
  json value = {{"format", 1},
                {"parallelism", to_json(plan.parallelism)},
                {"training", to_json(plan.training)}};
  if (!plan.parallelism.manual_stage.empty()) value["stage_of"] = plan.parallelism.manual_stage;
  // Units have no names here; their order is that of the model's graph.
  if (!plan.stage_of_unit.empty()) value["stage_of_unit"] = plan.stage_of_unit;
  return value;
}

}  // namespace meshwright
