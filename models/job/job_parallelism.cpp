// Defines the rows of the section `parallelism`, and reads those of its keys that need code of
// their own.
#include <nlohmann/json.hpp>

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright {

using nlohmann::json;

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

// Warns of keys that are given but have no effect.
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

std::string text_of_schedules() {
  std::string text;
  for (const ScheduleInfo& each : schedule_kinds())
    if (!each.rules.empty())
      text += (text.empty() ? "`" : " `") + std::string(each.name) +
              "`: " + std::string(each.rules) + ".";
  return text;
}

}  // namespace

Keys parallelism_keys(Parallelism& p) {
  using enum How;
  static const std::string needs_of_virtual_stages = text_of_virtual_stages();
  static const std::string rules_of_schedules = text_of_schedules();
  return {
      {"pipeline", &p.pipeline, degree, may_be_auto, "",
       "stages; pipeline × tensor × context × data = ranks. With `virtual_stages` at most a chunk "
       "for "
       "the embedding, each layer and the head"},
      {"tensor", &p.tensor, degree, may_be_auto, "",
       "divides heads, kv_heads, hidden and ffn; the vocabulary is padded to 128 × tensor"},
      {"data", &p.data, degree, auto_if_missing, "from the rest", "replicas"},
      {"shard", &p.shard, degree, may_be_auto, "",
       "ranks that share sharded states; divides data × context; 1 with a `zero_stage` means all "
       "of them; above 1 with `zero_stage` 0: an error"},
      {"context", &p.context, degree, may_be_auto, "",
       "ranks that share every sequence. 2 × context divides sequence_length: rank i holds chunks "
       "i and 2·context−1−i of 2·context, so that causal masks give all ranks equal work. Needs a "
       "causal model's own head (`lm`) and, but for `all_to_all`, `flash` or `flash2` "
       "attention; gradients and sharded states are those of data × context ranks. *auto* takes "
       "chunks of 128 tokens or more"},
      {"context_exchange", choice("context exchange", context_exchange_names(), p.context_exchange),
       any, auto_if_asked, "",
       "`p2p`: keys and values go around the ring of the context group, beside the attention to "
       "those that are there (again in the backward, with their gradients). `all_gather`: all at "
       "once. `all_to_all` (DeepSpeed-Ulysses): each rank gets some heads of whole sequences, and "
       "gives their outputs back; tensor × context divides heads and kv_heads. `a2a+p2p`: first "
       "neighbours exchange heads, then keys and values of these go around the rings that are "
       "left (`context_heads`): rings over hosts, exchanges inside. `parallelism` `\"auto\"` "
       "leaves it; *auto* tries `a2a+p2p` where a context group is larger than a host"},
      {"context_heads", &p.context_heads, by_reader(Range{.low = 2}), if_set,
       "0: the most that lie on a host",
       "`a2a+p2p`: neighbours of a context group that exchange heads; their ranks at one place "
       "are a ring of context ÷ context_heads. Divides context, and leaves rings of 2 or more; "
       "tensor × context_heads divides heads and kv_heads"},
      {"expert", &p.expert, degree, may_be_auto, "",
       "consecutive ranks that share the [experts](#experts); divides data and `experts`; `shard` "
       "divides data ÷ expert, or exceeds it"},
      {"virtual_stages", &p.virtual_stages, degree, may_be_auto, "", needs_of_virtual_stages},
      {"schedule", choice("schedule", schedule_names(), p.schedule), any, may_be_auto, "",
       rules_of_schedules},
      {"sequence_parallel", &p.sequence_parallel, any, may_be_auto, "",
       "tensor divides micro_batch × sequence_length"},
      {"zero_stage", &p.zero_stage, Range{.low = 0, .high = 3}, may_be_auto, "",
       "optimizer (1), gradients (2), parameters (3) sharded"},
      {"reduce_gradients",
       choice("time of the reduction", reduce_gradients_names(), p.reduce_gradients), any,
       may_be_auto, "",
       "when gradients are summed over the replicas. `each`: in the backward of every micro-batch; "
       "what is sharded is kept as shards alone, whatever the `zero_stage`. `last`: once a step, "
       "beside the backward of the last micro-batch (FSDP's `no_sync` before it, Megatron-LM): "
       "every rank keeps whole gradients until then, under `zero_stage` 2 and 3 too. *default*: "
       "`each` under `zero_stage` 3, and under 2 without stages; else `last`, for with stages "
       "micro-batches are many. With one micro-batch both are the same, and what `zero_stage` 2 "
       "shards is kept as shards. `each` does not go with the schedules that put weight "
       "gradients off (`zero_bubble` and its kin) nor with `shard_layout` `whole`"},
      {"reshard_after_forward", choice("resharding", {"always", "never"}, p.keeps_gathered), any,
       may_be_auto, "",
       "`zero_stage` 3: `always` drops a unit's gathered parameters after its forward and gathers "
       "them again before its backward. `never` (FSDP's `SHARD_GRAD_OP`) keeps those of all units "
       "of the stage: gathered once a step with `reduce_gradients` `last` or with stages, else in "
       "the forward of every micro-batch. `never` with `last` keeps what `zero_stage` 1 keeps, and "
       "gathers the weights beside the next step's forward (Megatron's `--overlap-param-gather`)"},
      {"active_microbatches", &p.active_microbatches, by_reader(at_least_one), if_set,
       "the schedule's own",
       "how many of a stage may be in flight; refused for `gpipe` below its micro-batches; "
       "`interleaved` takes groups "
       "one after another below 2 × pipeline"},
      {"overlap",
       code("list of {}", communications, read_overlap, [&p] { return overlap_json(p); }), any,
       plain, "",
       "what runs beside compute. `tensor`: in the backward, the sum (or scatter) of an input's "
       "gradient beside the gradients of the same weights, and with `sequence_parallel` what is "
       "gathered for those beside the product that makes the input's: not a bit of the result "
       "changes. With `tensor_chunks` also what other products wait for or make. `expert`: in the "
       "backward, the exchange that takes the gradient of experts' inputs back to the tokens, "
       "beside the gradients of the same experts' weights; not a bit changes (the other three "
       "exchanges of a layer have nothing to go beside: no model here has shared experts)"},
      {"tensor_chunks", &p.tensor_chunks, by_reader(at_least_one), may_be_auto, "",
       "with `tensor` in `overlap`: products whose result is summed or scattered over the tensor "
       "group, or whose input is gathered, are cut into so many chunks of rows; what one chunk "
       "communicates goes beside the product of the next. Rows (with `sequence_parallel` those of "
       "one rank) that it does not divide stay whole, and at `compiler` `full` what is fused. "
       "Products of fewer rows may be rounded otherwise. 1: whole products. *auto* tries 1, 2, 4 "
       "and 8"},
      {"pipeline_scatter_gather", &p.pipeline_scatter_gather, any, plain, "",
       "stages send 1/tensor of an activation and gather it"},
      {"placement", choice("placement", placements(), placements(), p.placement), any, may_be_auto,
       "", "the right-most letter's ranks are neighbours"},
      {"partition",
       code("{}, a `.json` file, or `{module path: stage}`", partition_words(), read_partition,
            [&p] { return partition_value(p); }),
       any, plain, "auto = chain", "see [Partition](#partition)"},
      {"memory_weight", &p.memory_weight, zero_to_one, plain, "",
       "what the cut balances: 0 time, 1 memory"},
      {"tensor_layout", choice("tensor layout", tensor_layout_names(), p.tensor_layout), any, plain,
       "", "see [Tensor layouts](#tensor-layouts)"},
      {"tensor_batch", choice("tensor batch", {"shared", "own"}, p.tensor_batch_own), any, plain,
       "", "`own`: each tensor rank reads micro_batch ÷ tensor sequences, which must be whole"},
      {"offload", choice("offload", offload_names(), p.offload), any, may_be_auto, "",
       "checkpointed activations (the inputs of what is recomputed), or the optimizer's states, "
       "wait in host memory, copied beside compute. `activations`: without recomputation a "
       "warning: no effect. A micro-batch's "
       "go out as its forward task makes them and come back `offload_horizon` pipeline tasks "
       "before its backward task; the device holds fewer copies than there are micro-batches in "
       "flight. What would come back within two tasks stays, so one micro-batch, or the last stage "
       "of `1f1b`, saves nothing. `layers`: inside a task, with `recompute` `full`, `contiguous` "
       "or `group_N`, the inputs of at most `offload_horizon` (at least 2) layers are on the "
       "device at one time; without recomputation all that blocks keep: the first blocks' goes, "
       "as with Transformer Engine's `cpu_offloading_num_layers`. `optimizer`: see "
       "[Optimizer states in host memory](#optimizer-states-in-host-memory). `simulate` reports "
       "`host_memory_bytes` of the fullest host; what exceeds its memory does not fit. "
       "`activations` and `layers` with `zero_bubble` and its kin: not supported yet"},
      {"offload_horizon", &p.offload_horizon, at_least_zero, if_set, "0: 4 tasks, 2 layers",
       "see `offload`: of activations; more is earlier and needs more memory"},
      {"shard_layout", choice("layout of shards", {"flat", "whole"}, p.shard_whole), any, plain, "",
       "`flat`: buffers of several parameters are cut into equal parts. `whole` (`zero_stage` 1, "
       "all replicas): every parameter has one owner, who alone has its optimizer states. "
       "Gradients are reduced to the owner, who updates and sends the weights. Owners get "
       "consecutive parameters, such that the fullest gets least; what a tensor group holds alike "
       "is shared out over that too. Memory is that of the fullest rank; each rank allocates what "
       "it needs itself"},
      {"reduce_bucket_bytes", &p.reduce_bucket_bytes, at_least_zero, if_set,
       "0: 26214400, or 2000000 for each rank that reduces if that is more; under `zero_stage` 3 "
       "and with `reduce_gradients` `each` a whole unit (block)",
       "gradients are reduced when so many bytes of them are ready; a bucket ends with a "
       "parameter. Under `zero_stage` 3 weights are gathered in the same buckets"},
      {"max_live_parameters", &p.max_live_parameters, at_least_zero, if_set, "0: two units",
       "`zero_stage` 3: prefetching pauses while so many elements are gathered (what units share "
       "counts, such as a tied embedding); the unit that reaches the cap is gathered whole, so up "
       "to one unit more is held. In backward, where gradients use the same stream, one unit at "
       "most is prefetched; none when the cap is below a unit"},
      {"persistence_threshold", &p.persistence_threshold, at_least_zero, plain, "",
       "`zero_stage` 3: parameters of fewer elements (of what a rank of the tensor group has) are "
       "not gathered and not cut: weights and gradients are whole on every rank, as with "
       "`zero_stage` 1, and reduced once a step"},
      {"hierarchical_gather", &p.hierarchical_gather, any, plain, "",
       "sharded weights are gathered between hosts first, every rank with those at its place on "
       "the others, then inside the hosts; false: in one ring over all ranks"}};
}

// `kind` tells a saved partition, which has a stage for every unit, from other files of stages.
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

}  // namespace meshwright
