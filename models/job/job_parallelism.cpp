// Defines the rows of the section `parallelism`, and reads those of its keys that need code of
// their own.

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright::job {

namespace {

constexpr Range degree = by_reader(at_least_one);

const std::vector<std::string> communications = {"gradients", "parameters", "tensor", "expert"};

void read_overlap(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  p.overlap_gradients = p.overlap_parameters = p.overlap_tensor = p.overlap_expert = false;
  bool* const switches[] = {&p.overlap_gradients, &p.overlap_parameters, &p.overlap_tensor,
                            &p.overlap_expert};
  const auto words = fields.required<std::vector<std::string>>("overlap");
  for (std::size_t i = 0; i < words.size(); ++i)
    *switches[choose(fields, "overlap/" + std::to_string(i), "communication", words[i],
                     communications)] = true;
}

json overlap_json(const Parallelism& p) {
  const bool switches[] = {p.overlap_gradients, p.overlap_parameters, p.overlap_tensor,
                           p.overlap_expert};
  json words = json::array();
  for (std::size_t i = 0; i < communications.size(); ++i)
    if (switches[i]) words.push_back(communications[i]);
  return words;
}

// The words for partitioners. If a partitioner has two words, the first one is written.
const std::pair<const char*, Partitioner> partitioners[] = {{"auto", Partitioner::chain},
                                                            {"chain", Partitioner::chain},
                                                            {"tree", Partitioner::tree},
                                                            {"metis", Partitioner::metis},
                                                            {"even", Partitioner::even}};

std::vector<std::string> partition_words() {
  std::vector<std::string> words;
  for (const auto& [word, partitioner] : partitioners) words.emplace_back(word);
  return words;
}

// Reads the stages that a job gives by hand: {module path: stage}.
void read_stages(Fields stages, Parallelism& p) {
  p.partitioner = Partitioner::manual;
  for (const std::string& path : stages.keys()) p.manual_stage[path] = stages.required<int>(path);
}

[[noreturn]] void fail_unknown_partition(const Fields& fields, const std::string& given) {
  std::vector<std::string> known = partition_words();
  known.insert(known.end(), {"a .json file", "an object {module path: stage}"});
  fields.fail("partition", "unknown partition '" + given + "'; known: " + list_of(known, "and"));
}

void read_partition(Fields& fields, Job& job) {
  Parallelism& p = job.plan.parallelism;
  if (fields.is_object("partition")) return read_stages(fields.object("partition"), p);
  const std::string given = fields.required<std::string>("partition");
  for (const auto& [word, partitioner] : partitioners)
    if (word == given) {
      p.partitioner = partitioner;
      return;
    }
  if (!given.ends_with(".json")) fail_unknown_partition(fields, given);
  try {
    job.settings_files.push_back(read_partition_file(job, given, p));
  } catch (const InputError& error) {
    fields.fail("partition", error.what());
  }
}

json partition_value(const Parallelism& p) {
  for (const auto& [word, partitioner] : partitioners)
    if (partitioner == p.partitioner) return word;
  return p.manual_stage;
}

// Warns of keys that are given although they have no effect.
void warn_about_effects(const Fields& fields, Job& job) {
  const Parallelism& p = job.plan.parallelism;
  const bool below_zero_3 = p.zero_stage != 3 && !job.is_auto("parallelism.zero_stage");
  const struct {
    bool is_given;
    const char *key, *text;
  } warnings[] = {
      {below_zero_3 && p.max_live_parameters > 0, "max_live_parameters",
       "no effect below zero_stage 3"},
      {below_zero_3 && p.persistence_threshold > 0, "persistence_threshold",
       "no effect below zero_stage 3"},
      {p.overlap_tensor && p.tensor == 1 && !job.is_auto("parallelism.tensor"), "overlap",
       "'tensor' has no effect while tensor is 1"},
      {p.overlap_expert && p.expert == 1 && !job.is_auto("parallelism.expert"), "overlap",
       "'expert' has no effect while expert is 1"},
      {p.expert_dispatch != ExpertDispatch::all_to_all && p.expert == 1 &&
           !job.is_auto("parallelism.expert"),
       "expert_dispatch", "no effect while expert is 1"},
      {p.tensor_chunks > 1 && !p.overlap_tensor, "tensor_chunks",
       "no effect while overlap does not name 'tensor'"},
      {below_zero_3 && p.keeps_gathered, "reshard_after_forward", "no effect below zero_stage 3"},
      {p.keeps_gathered && p.max_live_parameters > 0, "max_live_parameters",
       "no effect with reshard_after_forward 'never': all parameters of a stage are gathered"},
      {p.offload_horizon != 0 && p.offload == Offload::none && !job.is_auto("parallelism.offload"),
       "offload_horizon", "no effect while offload is none"},
      {p.offload_horizon != 0 && p.offload == Offload::optimizer, "offload_horizon",
       "no effect while offload is optimizer"},
      {p.context_exchange != ContextExchange::p2p && p.context == 1 &&
           !job.is_auto("parallelism.context"),
       "context_exchange", "no effect while context is 1"},
      {p.context_heads > 0 && p.context_exchange != ContextExchange::a2a_p2p &&
           !job.is_auto("parallelism.context_exchange"),
       "context_heads", "no effect while context_exchange is not 'a2a+p2p'"}};
  for (const auto& [is_given, key, text] : warnings)
    if (is_given) warn(job, fields, key, text);
  if (p.offload == Offload::activations) warn_about_offload(fields, "offload", job);
}

// Returns, for the documentation, which schedules can have virtual stages.
std::string text_of_virtual_stages() {
  std::vector<std::string> names;
  for (const ScheduleInfo& each : schedule_kinds()) {
    if (each.most_chunks == 1) continue;
    names.push_back("`" + std::string(each.name) + "`");
    if (each.most_chunks < ScheduleInfo::any)
      names.back() += " (at most " + std::to_string(each.most_chunks) + ")";
  }
  return "above 1 needs " + list_of(names, "or") + ", and 2 stages";
}

}  // namespace

Keys parallelism_keys(Parallelism& p) {
  using enum How;
  static const std::string needs_of_virtual_stages = text_of_virtual_stages();
  return {
      {"pipeline", &p.pipeline, degree, may_be_auto, "",
       "number of stages; pipeline × tensor × context × data = ranks. With `virtual_stages`, at "
       "most one chunk for each of the embedding, the layers and the head"},
      {"tensor", &p.tensor, degree, may_be_auto, "",
       "divides heads, kv_heads, hidden and ffn; the vocabulary is padded to 128 × tensor"},
      {"data", &p.data, degree, auto_if_missing, "from the rest", "replicas"},
      {"shard", &p.shard, degree, may_be_auto, "",
       "ranks that share sharded states; divides data × context; 1 with a `zero_stage` means all "
       "of them; above 1 with `zero_stage` 0: an error"},
      {"context", &p.context, degree, may_be_auto, "",
       "number of ranks that share every sequence; 2 × context divides sequence_length. Needs a "
       "causal model with head `lm` and, except for `all_to_all`, `flash` or `flash2` attention. "
       "*auto* takes chunks of 128 tokens or more. See [Context groups](#context-groups)"},
      {"context_exchange", choice("context exchange", context_exchange_names(), p.context_exchange),
       any, auto_if_asked, "",
       "how ranks of a context group share keys and values: `p2p` around a ring, `all_gather` "
       "all at once, `all_to_all` by heads (DeepSpeed-Ulysses), `a2a+p2p` by heads among "
       "neighbours, then around rings. `parallelism` `\"auto\"` does not open it. See [Context "
       "groups](#context-groups)"},
      {"context_heads", &p.context_heads, by_reader(Range{.low = 2}), if_set,
       "0: the most that are on a host",
       "for `a2a+p2p`: number of neighbours in a context group that exchange heads. Divides "
       "context, and leaves rings of 2 or more; tensor × context_heads divides heads and "
       "kv_heads. See [Context groups](#context-groups)"},
      {"expert", &p.expert, degree, may_be_auto, "",
       "consecutive ranks that share the [experts](#experts); divides `experts` and data, or data "
       "× tensor if `expert_tensor` is 1; `shard` divides data ÷ expert, or exceeds it"},
      {"expert_tensor", &p.expert_tensor, by_reader(at_least_one), set_or_auto,
       "0: 1 for dropless experts that ranks share, else tensor",
       "ranks of a tensor group that split each expert: 1 or tensor. With 1, each rank of the "
       "tensor group has whole experts and sends its own tokens to them, and expert groups are "
       "neighbours on data × tensor. See [Experts](#experts)"},
      {"expert_dispatch", choice("dispatch of experts", expert_dispatch_names(), p.expert_dispatch),
       any, plain, "",
       "for predictions: how tokens travel to [experts](#experts). `all_to_all`: once for each "
       "expert. `deduplicated` (DeepEP, HybridEP): once to each host, and there once to each rank. "
       "`train` always does the former, with the same results"},
      {"virtual_stages", &p.virtual_stages, degree, may_be_auto, "", needs_of_virtual_stages},
      {"schedule", choice("schedule", schedule_names(), p.schedule), any, may_be_auto, "",
       "order of each stage's tasks, see [Schedules](#schedules)"},
      {"sequence_parallel", &p.sequence_parallel, any, may_be_auto, "",
       "tensor divides micro_batch × sequence_length"},
      {"zero_stage", &p.zero_stage, Range{.low = 0, .high = 3}, may_be_auto, "",
       "optimizer (1), gradients (2), parameters (3) sharded"},
      {"reduce_gradients",
       choice("time of the reduction", reduce_gradients_names(), p.reduce_gradients), any,
       may_be_auto, "",
       "when gradients are summed over the replicas: `each` in the backward of every "
       "micro-batch, `last` once a step. *default* is `each` under `zero_stage` 3, and under 2 "
       "without stages, else `last`. See [Sharded states](#sharded-states)"},
      {"reshard_after_forward", choice("resharding", {"always", "never"}, p.keeps_gathered), any,
       may_be_auto, "",
       "for `zero_stage` 3: `always` drops a unit's gathered parameters after its forward and "
       "gathers them again before its backward. `never` (FSDP's `SHARD_GRAD_OP`) keeps those of "
       "all units of the stage. See [Sharded states](#sharded-states)"},
      {"active_microbatches", &p.active_microbatches, by_reader(at_least_one), if_set,
       "the schedule's own",
       "largest number of micro-batches in flight on a stage. Refused for `gpipe` below its "
       "number of micro-batches. Below 2 × pipeline, `interleaved` runs groups one after another"},
      {"overlap",
       code("list of {}", communications, read_overlap, [&p] { return overlap_json(p); }), any,
       plain, "", "which communication overlaps with compute, see [Overlap](#overlap)"},
      {"tensor_chunks", &p.tensor_chunks, by_reader(at_least_one), may_be_auto, "",
       "with `tensor` in `overlap`: number of chunks of rows into which matmuls are split, so "
       "that the communication of one chunk overlaps with the matmul of the next. 1: no split. "
       "*auto* tries 1, 2, 4 and 8. See [Overlap](#overlap)"},
      {"pipeline_scatter_gather", &p.pipeline_scatter_gather, any, plain, "",
       "each rank of a tensor group sends 1/tensor of an activation to the next stage, which "
       "gathers it"},
      {"placement", choice("placement", placements(), placements(), p.placement), any, may_be_auto,
       "", "the right-most letter's ranks are neighbours"},
      {"partition",
       code("{}, a `.json` file, or `{module path: stage}`", partition_words(), read_partition,
            [&p] { return partition_value(p); }),
       any, plain, "auto = chain", "see [Partition](#partition)"},
      {"memory_weight", &p.memory_weight, zero_to_one, plain, "",
       "what the partition balances: 0 time, 1 memory"},
      {"tensor_layout", choice("tensor layout", tensor_layout_names(), p.tensor_layout), any, plain,
       "", "see [Tensor layouts](#tensor-layouts)"},
      {"tensor_batch", choice("tensor batch", {"shared", "own"}, p.tensor_batch_own), any, plain,
       "", "`own`: each tensor rank reads micro_batch ÷ tensor sequences, which must be whole"},
      {"offload", choice("offload", offload_names(), p.offload), any, may_be_auto, "",
       "what is stored in host memory and copied while the device computes: `activations` that "
       "are saved for recomputation, those of single `layers`, or the `optimizer`'s states. See "
       "[Offloading](#offloading)"},
      {"offload_horizon", &p.offload_horizon, at_least_zero, if_set, "0: 4 tasks, 2 layers",
       "for `offload` of activations: how early they come back. A larger number is earlier and "
       "needs more memory. See [Offloading](#offloading)"},
      {"shard_layout", choice("layout of shards", {"flat", "whole"}, p.shard_whole), any, plain, "",
       "`flat`: buffers of several parameters are split into equal shards. `whole` (`zero_stage` "
       "1, all replicas): one rank, the owner, stores all optimizer states of a parameter. See "
       "[Sharded states](#sharded-states)"},
      {"reduce_bucket_bytes", &p.reduce_bucket_bytes, at_least_zero, if_set,
       "0: 26214400, or 2000000 for each rank that reduces if that is more; under `zero_stage` 3 "
       "and with `reduce_gradients` `each` a whole unit (block)",
       "gradients are reduced once this many bytes of them are ready; a bucket ends with a "
       "parameter. Under `zero_stage` 3 weights are gathered in the same buckets"},
      {"max_live_parameters", &p.max_live_parameters, at_least_zero, if_set, "0: two units",
       "for `zero_stage` 3: prefetching pauses while this many elements are gathered. Elements "
       "that units share, such as a tied embedding, count. The unit that reaches the limit is "
       "gathered whole. See [Sharded states](#sharded-states)"},
      {"persistence_threshold", &p.persistence_threshold, at_least_zero, plain, "",
       "for `zero_stage` 3: parameters with fewer elements on a rank of the tensor group are not "
       "sharded. Every rank holds their weights and gradients whole, as with `zero_stage` 1, and "
       "reduces them once a step"},
      {"hierarchical_gather", &p.hierarchical_gather, any, plain, "",
       "sharded weights are gathered between hosts first, among ranks with equal positions in "
       "their hosts, then inside the hosts. false: in one ring over all ranks"}};
}

// Only a saved partition has `kind` "partition" and a stage for every unit.
std::string read_partition_file(const Job& job, const std::string& path, Parallelism& parallelism) {
  const std::string found = resolve(job, path);
  Fields file = read_json_file(found);
  if (!file.has("stage_of")) {
    read_stages(file, parallelism);
    return found;
  }
  if (file.has("format") && file.required<int>("format") != 1)
    file.fail("format", "is of another version; use 1, or save the partition again");
  parallelism.names_every_unit =
      file.has("kind") && file.required<std::string>("kind") == "partition";
  read_stages(file.object("stage_of"), parallelism);
  return found;
}

void read_parallelism(Fields fields, Job& job) {
  read_keys(fields, parallelism_keys(job.plan.parallelism), job);
  warn_about_effects(fields, job);
  fields.done();
}

json to_json(Parallelism parallelism) { return write_keys(parallelism_keys(parallelism)); }

}  // namespace meshwright::job
