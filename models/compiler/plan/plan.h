// The plan: how a model is trained and split over ranks, in the words of the job file. The planner
// sets what a job leaves open, and the compiler reads the plan. broken_rule() checks all rules
// about it, except for those about the machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/architectures/model_sizes.h"
#include "models/compiler/schedule/kinds.h"
#include "models/core/violation.h"
#include "models/program/mesh.h"
#include "models/program/stage_layout.h"
#include "models/program/training.h"

namespace meshwright::compiler {

// Returns the default size, in bytes, of a bucket of gradients that are reduced together by a group
// of `ranks` ranks. Each rank of a group adds a step, and so latency, to a collective. Buckets
// therefore grow with the group, as in Megatron-Core (1 M elements, here of 2 bytes, for each rank:
// distributed_data_parallel.py). The minimum of 25 MiB is PyTorch's.
constexpr std::int64_t default_bucket_bytes(int ranks) {
  return std::max<std::int64_t>(25 << 20, std::int64_t{2'000'000} * ranks);
}
enum class Partitioner : std::uint8_t {
  chain,
  tree,
  metis,
  even,  // the same number of blocks on every stage; of the last stages, some have one more
  manual
};  // in the job file, "auto" means chain

// The ways in which a tensor group shares the work (models/compiler/passes/split/split_tensors.h).
enum class TensorLayout : std::uint8_t { megatron, speed, memory };

// The data that waits in host memory: checkpointed activations (models/compiler/lower/offload.h),
// or the optimizer's states (models/compiler/lower/offload_states.h).
enum class Offload : std::uint8_t {
  none,
  activations,  // activations of whole tasks; the horizon is in pipeline tasks
  layers,       // activations of layers inside a task; the horizon is in layers
  optimizer     // masters and moments, from one step's end to the next one's
};

// The ways in which attention gets the keys and values of the other ranks of a context group.
enum class ContextExchange : std::uint8_t {
  p2p,         // keys and values go around the ring (models/compiler/passes/split/ring_attention.h)
  all_gather,  // keys and values, all at once
  all_to_all,  // each rank gets some heads of whole sequences
               // (models/compiler/passes/split/exchange_heads.h)
  a2a_p2p      // neighbours exchange heads; keys and values of each rank's heads go around rings
};

// The ways in which tokens are sent to the experts that they chose.
enum class ExpertDispatch : std::uint8_t {
  all_to_all,   // once for each expert that a token chose
  deduplicated  // once to each host, and from there once to each rank, as in DeepEP and HybridEP
};

// The times at which gradients are summed over the replicas.
enum class ReduceGradients : std::uint8_t {
  usual,  // "default" in the job file; see reduces_each_micro_batch()
  each,   // in every micro-batch's backward; if states are sharded, ranks keep only their shards
  last    // once a step, in the backward of the last micro-batch
};

struct Parallelism {
  int pipeline = 1, tensor = 1, data = 1, shard = 1, context = 1, expert = 1;
  // Number of ranks that split each expert: 1 or `tensor`. With 1, the ranks of a tensor group have
  // whole experts and tokens of their own. 0 means `tensor`. If a job leaves it out, it is set to
  // default_expert_tensor().
  int expert_tensor = 0;
  ExpertDispatch expert_dispatch = ExpertDispatch::all_to_all;
  int virtual_stages = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int active_microbatches = 0;  // 0: the schedule's own bound
  bool sequence_parallel = false;
  int zero_stage = 0;
  ReduceGradients reduce_gradients = ReduceGradients::usual;
  // ZeRO 3: gathered weights are kept for the backward (reshard_after_forward "never" in the job
  // file).
  bool keeps_gathered = false;
  bool overlap_gradients = true, overlap_parameters = true;
  bool overlap_tensor = false, overlap_expert = false;
  int tensor_chunks = 1;  // chunks of a matmul that overlap with each other's tensor communication
  bool pipeline_scatter_gather = true;
  std::string placement = "PDT";
  Partitioner partitioner = Partitioner::chain;
  double memory_weight = 0;  // share of memory in the balance of stages: 0 time only, 1 memory only
  std::map<std::string, int> manual_stage;  // module path -> virtual stage
  // Whether manual_stage is a saved partition, which must name every unit.
  bool names_every_unit = false;
  TensorLayout tensor_layout = TensorLayout::megatron;
  bool tensor_batch_own = false;
  ContextExchange context_exchange = ContextExchange::p2p;
  // For a2a_p2p: number of neighbours that exchange heads. 0 means default_context_heads(): as many
  // as fit on a host.
  int context_heads = 0;
  // Whether context attention is computed as compiled PyTorch does it (ring_attention.h). The job
  // file has no key for it, because meshwright's engine sends keys and values around the ring
  // without repeating them for every query head.
  bool context_of_pytorch = false;
  Offload offload = Offload::none;
  int offload_horizon = 0;               // 0: four tasks or two layers, as in SageMaker's library
  bool shard_whole = false;              // shard_layout "whole": states of a parameter are not cut
  std::int64_t reduce_bucket_bytes = 0;  // 0: default_bucket_bytes, or whole units
  std::int64_t max_live_parameters = 0;  // elements gathered at once; 0: two units at most
  std::int64_t persistence_threshold = 0;  // ZeRO 3: parameters with fewer elements are not sharded
  // Whether weights are gathered in two steps: between hosts and inside a host.
  bool hierarchical_gather = true;

  bool offloads_activations() const {
    return offload == Offload::activations || offload == Offload::layers;
  }
  int horizon() const {
    return offload_horizon > 0 ? offload_horizon : offload == Offload::layers ? 2 : 4;
  }
  Degrees degrees() const {
    Degrees d{pipeline, tensor, data, context, shard, expert};
    if (has_two_exchanges()) d.context_heads = context_heads;
    d.experts_over_tensor = tensor > 1 && expert_tensor == 1;
    return d;
  }
  StageLayout stage_layout() const;
  bool has_two_exchanges() const {
    return context > 1 && context_exchange == ContextExchange::a2a_p2p;
  }
  // Returns the number of ranks of a context group among which heads are exchanged, or 1 if no
  // heads are exchanged. With a2a_p2p, context_heads must be set.
  int ranks_of_heads() const {
    return has_two_exchanges()                               ? context_heads
           : context_exchange == ContextExchange::all_to_all ? context
                                                             : 1;
  }
  bool exchanges_heads() const { return ranks_of_heads() > 1; }
  // Returns whether attention on each rank is over whole sequences: either no ranks share
  // sequences, or the whole context group exchanges heads. Returns false if keys and values are
  // gathered.
  bool attends_to_whole_sequences() const { return ranks_of_heads() == context; }
  bool operator==(const Parallelism&) const = default;
};

struct Plan {
  Training training;
  Parallelism parallelism;
  std::vector<int>
      stage_of_unit;      // virtual stage of every unit of the graph; empty: not partitioned yet
  bool snapshot = false;  // memory is reserved for checkpoints written while training goes on

  int replicas() const { return parallelism.data; }
  int micro_batches() const {
    return static_cast<int>(training.global_batch /
                            (static_cast<std::int64_t>(parallelism.data) * training.micro_batch));
  }
  int virtual_stage_count() const { return parallelism.pipeline * parallelism.virtual_stages; }
  // Returns the number of ranks that share one copy of sharded states: `shard` if it is above 1,
  // otherwise all of data * context. Returns 1 if zero_stage is 0.
  int shard_group() const {
    if (parallelism.zero_stage == 0) return 1;
    return parallelism.shard > 1 ? parallelism.shard : parallelism.data * parallelism.context;
  }
  // Returns whether gradients are reduced in every micro-batch. Returns false if data * context is
  // 1. If the plan leaves the choice open, ZeRO 3 does so, and ZeRO 2 without stages, to save
  // memory. ZeRO 2 with stages does not, because stages have many micro-batches. A single
  // micro-batch is the first and the last one: then sharded gradients count as reduced in every one
  // (ZeRO 2 and 3, and ZeRO 1 if the plan asks for it).
  bool reduces_each_micro_batch() const {
    const Parallelism& p = parallelism;
    const bool asked = p.reduce_gradients == ReduceGradients::each;
    if (p.data * p.context == 1) return false;
    if (micro_batches() == 1) return p.zero_stage >= (asked ? 1 : 2);
    if (p.reduce_gradients != ReduceGradients::usual) return asked;
    return p.zero_stage == 3 || (p.zero_stage == 2 && p.pipeline == 1);
  }
  // Returns whether parameters are gathered once a step and then kept. This takes a plan that keeps
  // gathered parameters for the backward, and gradients that are reduced once a step or a pipeline
  // with several stages. Otherwise parameters that are sharded by ZeRO 3 are gathered in every
  // micro-batch.
  bool gathers_once_a_step() const {
    return parallelism.keeps_gathered && (!reduces_each_micro_batch() || parallelism.pipeline > 1);
  }
  // Returns the degrees with `shard` set to shard_group().
  Degrees degrees() const {
    Degrees d = parallelism.degrees();
    d.shard = shard_group();
    return d;
  }
  bool operator==(const Plan&) const = default;
};

// Returns the first rule that the plan breaks for this model, or nothing if the plan is legal. The
// violation names no file. Rules about the machine (ranks against GPUs) are checked with the job.
Ruling broken_rule(const Plan& plan, const ModelSizes& model);
// Throws the violation that broken_rule() returns, if there is one, as an InputError.
void verify(const Plan& plan, const ModelSizes& model);
// Returns the divisors of `number` in ascending order, at most 24, for messages.
std::vector<std::int64_t> divisors_of(std::int64_t number);

// Returns the job file's word for the plan's recomputation. For groups it has their number, such as
// `group_4`.
std::string recompute_word(const Training& training);

// The words of the job file for each enumeration, in the order of the enumerators.
const std::vector<std::string>& schedule_names();   // of the schedules in models/compiler/schedule/
const std::vector<std::string>& recompute_names();  // none selective full each contiguous group_N
const std::vector<std::string>& tensor_layout_names();     // megatron speed memory
const std::vector<std::string>& context_exchange_names();  // p2p all_gather all_to_all a2a+p2p
const std::vector<std::string>& expert_dispatch_names();   // all_to_all deduplicated
const std::vector<std::string>& offload_names();           // none activations layers optimizer
const std::vector<std::string>& reduce_gradients_names();  // default each last
const std::vector<std::string>& base_weights_names();      // unquantized nf4 int4
const std::vector<std::string>& fp8_recipe_names();        // delayed tensorwise blockwise mxfp8
const std::vector<std::string>& memory_of_names();         // engine pytorch xla

}  // namespace meshwright::compiler
