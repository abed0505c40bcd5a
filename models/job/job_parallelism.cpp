#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/sections.h"

namespace meshwright {

namespace {

const std::string section = "parallelism";

void take_degree(Fields& fields, std::string_view key, int& degree, Job& job) {
  take_or_auto(fields, key, degree, section, job);
  if (degree < 1) fields.fail(key, std::to_string(degree) + " is too small; use 1 or more");
}

void read_degrees(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  const std::pair<const char*, int*> degrees[] = {
      {"pipeline", &p.pipeline}, {"tensor", &p.tensor}, {"context", &p.context},
      {"expert", &p.expert},     {"shard", &p.shard},   {"virtual_stages", &p.virtual_stages}};
  for (const auto& [key, degree] : degrees) take_degree(fields, key, *degree, job);
  if (!fields.has("data")) job.autos.insert("parallelism.data");  // from the rest
  take_degree(fields, "data", p.data, job);
}

void read_schedule(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  if (!take_auto(fields, "schedule", section, job))
    take_word(fields, "schedule", "schedule", schedule_names(), p.schedule);
  if (!fields.has("active_microbatches")) return;
  take(fields, "active_microbatches", p.active_microbatches);
  if (p.active_microbatches < 1)
    fields.fail("active_microbatches",
                std::to_string(p.active_microbatches) + " is too small; use 1 or more");
}

void read_overlap(Fields& fields, Job& job) {
  if (!fields.has("overlap")) return;
  Parallelism& p = job.plan.parallelism;
  p.overlap_gradients = p.overlap_parameters = p.overlap_tensor = false;
  bool* const switches[] = {&p.overlap_gradients, &p.overlap_parameters, &p.overlap_tensor};
  const auto words = fields.required<std::vector<std::string>>("overlap");
  for (std::size_t i = 0; i < words.size(); ++i)
    *switches[choose(fields, "overlap/" + std::to_string(i), "communication", words[i],
                     {"gradients", "parameters", "tensor"})] = true;
  if (p.overlap_tensor)
    warn(job, fields, "overlap",
         "'tensor' changes no step yet: each sum inside a tensor group is needed by the operation "
         "after it");
}

// {module path: stage}
void read_stages(Fields stages, Parallelism& p) {
  p.partitioner = Partitioner::manual;
  for (const std::string& path : stages.keys()) p.manual_stage[path] = stages.required<int>(path);
}

void read_partition(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  take(fields, "memory_weight", p.memory_weight);
  if (!fields.has("partition")) return;
  if (fields.is_object("partition")) return read_stages(fields.object("partition"), p);
  const std::string word = fields.required<std::string>("partition");
  const std::pair<const char*, Partitioner> words[] = {{"auto", Partitioner::chain},
                                                       {"chain", Partitioner::chain},
                                                       {"tree", Partitioner::tree},
                                                       {"metis", Partitioner::metis},
                                                       {"even", Partitioner::even}};
  for (const auto& [name, partitioner] : words)
    if (word == name) {
      p.partitioner = partitioner;
      return;
    }
  if (!word.ends_with(".json"))
    fields.fail("partition",
                "unknown partition '" + word +
                    "'; known: auto, chain, tree, metis, even, a .json file and an object "
                    "{module path: stage}");
  try {
    read_partition_file(job, word, p);
  } catch (const InputError& error) {
    fields.fail("partition", error.what());
  }
}

void read_sharding(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  take_or_auto(fields, "zero_stage", p.zero_stage, section, job);
  take_word(fields, "shard_layout", "layout of shards", {"flat", "whole"}, p.shard_whole);
  take(fields, "reduce_bucket_bytes", p.reduce_bucket_bytes);
  take(fields, "max_live_parameters", p.max_live_parameters);
  take(fields, "persistence_threshold", p.persistence_threshold);
  take(fields, "hierarchical_gather", p.hierarchical_gather);
  if (p.zero_stage == 3 || job.is_auto("parallelism.zero_stage")) return;
  for (const auto& [key, given] : {std::pair{"max_live_parameters", p.max_live_parameters > 0},
                                   std::pair{"persistence_threshold", p.persistence_threshold > 0}})
    if (given) warn(job, fields, key, "no effect below zero_stage 3");
}

void read_tensor_words(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  take_word(fields, "tensor_layout", "tensor layout", tensor_layout_names(), p.tensor_layout);
  take_word(fields, "tensor_batch", "tensor batch", {"shared", "own"}, p.tensor_batch_own);
  take_word(fields, "context_exchange", "context exchange", {"p2p", "all_gather"},
            p.context_gathers);
  if (!take_auto(fields, "offload", section, job))
    take_word(fields, "offload", "offload", offload_names(), p.offload);
  int placement = 0;
  if (!take_auto(fields, "placement", section, job))
    take_word(fields, "placement", "placement", placements(), placement);
  p.placement = placements()[static_cast<std::size_t>(placement)];
}

}  // namespace

// A saved partition says so: it has a stage for every unit.
void read_partition_file(const Job& job, const std::string& path, Parallelism& parallelism) {
  Fields file = read_json_file(resolve(job, path));
  if (!file.has("stage_of")) return read_stages(file, parallelism);
  if (file.has("format") && file.required<int>("format") != 1)
    file.fail("format", "is of another version; use 1, or save the partition again");
  parallelism.names_every_unit =
      file.has("kind") && file.required<std::string>("kind") == "partition";
  read_stages(file.object("stage_of"), parallelism);
}

void read_parallelism(Fields fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  read_degrees(fields, job);
  read_schedule(fields, job);
  take_or_auto(fields, "sequence_parallel", p.sequence_parallel, section, job);
  read_sharding(fields, job);
  read_overlap(fields, job);
  take(fields, "pipeline_scatter_gather", p.pipeline_scatter_gather);
  read_partition(fields, job);
  read_tensor_words(fields, job);
  take(fields, "offload_horizon", p.offload_horizon);
  const Parallelism defaults;
  if (p.offload_horizon != defaults.offload_horizon && p.offload == Offload::none &&
      !job.is_auto("parallelism.offload"))
    warn(job, fields, "offload_horizon", "no effect while offload is none");
  if (p.context_gathers && p.context == 1 && !job.is_auto("parallelism.context"))
    warn(job, fields, "context_exchange", "no effect while context is 1");
  if (p.offload != Offload::none) warn_about_offload(fields, "offload", job);
  fields.done();
}

}  // namespace meshwright
