// The plan: how a model is trained and cut. It is data in the words of the job file; the planner
// fills it in, models/lower reads it. `verify` is the one list of rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/mesh.h"
#include "models/plan/step_settings.h"
#include "models/schedule/schedule.h"
#include "models/schedule/stage_layout.h"

namespace meshwright {

enum class Recompute : std::uint8_t { none, selective, full, each, contiguous, group };
// Of gradients that are reduced together. Each rank of a group adds a step, and so latency, to a
// collective: buckets grow with the group, as in Megatron-Core (1 M elements for each rank,
// distributed_data_parallel.py); 25 MiB are PyTorch's.
constexpr std::int64_t default_bucket_bytes(int ranks) {
  return std::max<std::int64_t>(25 << 20, std::int64_t{2'000'000} * ranks);
}
enum class Partitioner : std::uint8_t {
  chain,
  tree,
  metis,
  even,  // as many blocks on every stage; the last ones get the rest
  manual
};  // job file: "auto" means chain

// How a tensor group shares the work (models/passes/split/split_tensors.h).
enum class TensorLayout : std::uint8_t { megatron, speed, memory };

// What waits in host memory: checkpointed activations (models/lower/offload.h), or the optimizer's
// states (models/lower/offload_states.h).
enum class Offload : std::uint8_t {
  none,
  activations,  // those of whole tasks; the horizon is in pipeline tasks
  layers,       // those of layers inside a task
  optimizer     // masters and moments, from one step's end to the next one's
};

// How attention gets what the other ranks of a context group have.
enum class ContextExchange : std::uint8_t {
  p2p,         // keys and values go around the ring (models/passes/split/ring_attention.h)
  all_gather,  // keys and values, all at once
  all_to_all,  // each rank gets some heads of whole sequences
               // (models/passes/split/exchange_heads.h)
  a2a_p2p      // neighbours exchange heads, and keys and values of these go around rings
};

// When the gradients of a micro-batch are summed over the replicas.
enum class ReduceGradients : std::uint8_t {
  usual,  // job file: default. What reduces_each_micro_batch() says
  each,   // in its own backward; where states are sharded, ranks keep their shards of the sums only
  last    // with those of the step's others, in the backward of the last one
};

// Whose memory decides what fits: this engine's, or that of a framework that would run the job
// (sim/framework/framework_memory.h).
enum class MemoryOf : std::uint8_t {
  engine,
  pytorch,  // mixed precision by autocast, operation by operation
  xla       // the same step as one program of PyTorch/XLA
};

// Low-rank adapters (models/passes/graph/add_adapters.h): they alone are trained.
inline constexpr std::string_view all_linear = "all-linear";  // of blocks
struct Lora {
  int rank = 8;
  double alpha = 8;    // what they add is multiplied by alpha / rank
  double dropout = 0;  // of what they read
  std::vector<std::string> target_modules;
  bool operator==(const Lora&) const = default;
};

inline constexpr double default_mtp_loss_weight = 0.1;  // Megatron-Core's mtp_loss_scaling_factor

// With what only the compiler and the engine's set-up read.
struct Training : StepSettings {
  Recompute recompute = Recompute::none;
  int recompute_group = 1;  // N of group_N
  double recompute_fraction = 1;
  std::vector<std::string> recompute_modules;  // of blocks, each repeated by itself; * is any name
  // Memory for one micro-batch's activations on one virtual stage: up to 1 the share of what is
  // kept without recomputation, above 1 bytes (models/passes/dataflow/recompute_budget.h).
  std::optional<double> recompute_budget;
  MemoryOf memory_of = MemoryOf::engine;
  std::vector<std::string>
      passes_off;  // optional passes of the compiler that are left out, by name
  // Whether rematerialize_rows runs. None: compile() looks at the memory; a list of passes alone
  // takes the least.
  std::optional<bool> rematerialize_rows;
  // Of the logits that fuse_loss makes at once. 0: as for rematerialize_rows; of what is left to
  // the passes, about least_loss_block_bytes.
  std::int64_t loss_block_bytes = 0;
  // Whether a step clears all gradients, as published steps of other frameworks do, or the first
  // micro-batch overwrites them (models/lower/first_sums.h). No key: what runs here overwrites.
  bool clears_gradients = false;
  std::optional<Lora> lora;     // none: all parameters are trained
  int predicted_positions = 0;  // mlm
  // Rows hold several documents (models/graph/documents.h), for predictions so many in the mean;
  // none: one.
  bool packing = false;
  std::optional<double> documents_per_row;
  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): blocks behind the model's
  // own, of which the k-th says the token k further on; their losses' mean counts so much.
  int mtp_layers = 0;
  std::optional<double> mtp_loss_weight;  // none: default_mtp_loss_weight
  double dropout = 0;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;
  bool fp8_experts = false;  // their products too
  bool fp8_gathers = false;  // what is multiplied in 8 bits alone travels in them (ZeRO 3)
  // Of dropless experts that ranks share, for predictions: by so much more than the mean the
  // fullest rank gets. None: as much.
  std::optional<double> expert_imbalance;
  double expert_skew = 0;            // instead: of the choices (models/graph/expert_skew.h)
  bool measure_expert_load = false;  // what that is in a run: StepResult::expert_load
  // Blocks at the beginning and at the end of a stack that multiply 16 bits all the same.
  int first_layers_in_bf16 = 0, last_layers_in_bf16 = 0;
  bool has_layers_in_bf16() const { return first_layers_in_bf16 + last_layers_in_bf16 > 0; }
  bool is_in_bf16(int block, int blocks) const {
    return block < first_layers_in_bf16 || block >= blocks - last_layers_in_bf16;
  }
  bool operator==(const Training&) const = default;
};

struct Parallelism {
  int pipeline = 1, tensor = 1, data = 1, shard = 1, context = 1, expert = 1;
  int virtual_stages = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int active_microbatches = 0;  // 0: the schedule's own bound
  bool sequence_parallel = false;
  int zero_stage = 0;
  ReduceGradients reduce_gradients = ReduceGradients::usual;
  bool keeps_gathered = false;  // ZeRO 3; job file: reshard_after_forward never
  bool overlap_gradients = true, overlap_parameters = true;
  bool overlap_tensor = false, overlap_expert = false;
  int tensor_chunks = 1;  // pieces of a product that tensor communication goes beside
  bool pipeline_scatter_gather = true;
  std::string placement = "PDT";
  Partitioner partitioner = Partitioner::chain;
  double memory_weight = 0;  // of the partition's balance: 0 time only, 1 memory only
  std::map<std::string, int> manual_stage;  // module path -> virtual stage
  bool names_every_unit = false;  // manual_stage is a saved partition: no unit may be missing in it
  TensorLayout tensor_layout = TensorLayout::megatron;
  bool tensor_batch_own = false;
  ContextExchange context_exchange = ContextExchange::p2p;
  int context_heads = 0;  // a2a_p2p: neighbours that exchange heads; 0: as many as lie on a host
  // Context attention as compiled PyTorch has it (ring_attention.h). No key: what runs here goes
  // around the ring with the keys' own heads.
  bool context_of_pytorch = false;
  Offload offload = Offload::none;
  int offload_horizon = 0;   // 0: four tasks, two layers, as SageMaker's library
  bool shard_whole = false;  // job file: shard_layout whole: each parameter has one owner
  std::int64_t reduce_bucket_bytes = 0;    // 0: default_bucket_bytes; ZeRO 3: a whole unit
  std::int64_t max_live_parameters = 0;    // gathered at once, in elements; 0: two units
  std::int64_t persistence_threshold = 0;  // ZeRO 3: parameters below it are not sharded
  bool hierarchical_gather = true;         // weights are gathered in two levels over hosts

  bool offloads_activations() const {
    return offload == Offload::activations || offload == Offload::layers;
  }
  int horizon() const {
    return offload_horizon > 0 ? offload_horizon : offload == Offload::layers ? 2 : 4;
  }
  Degrees degrees() const {
    Degrees d{pipeline, tensor, data, context, shard, expert};
    if (has_two_exchanges()) d.context_heads = context_heads;
    return d;
  }
  StageLayout stage_layout() const {
    return {pipeline, virtual_stages, schedule_info(schedule).stage_shape};
  }
  bool has_two_exchanges() const {
    return context > 1 && context_exchange == ContextExchange::a2a_p2p;
  }
  // Ranks of a context group among which heads are exchanged.
  int ranks_of_heads() const {
    return has_two_exchanges()                               ? context_heads
           : context_exchange == ContextExchange::all_to_all ? context
                                                             : 1;
  }
  bool exchanges_heads() const { return ranks_of_heads() > 1; }
  // Of some heads or of all: no other rank has a part of what attention reads.
  bool attends_to_whole_sequences() const { return ranks_of_heads() == context; }
  bool operator==(const Parallelism&) const = default;
};

struct Plan {
  Training training;
  Parallelism parallelism;
  std::vector<int>
      stage_of_unit;      // virtual stage of every unit of the graph; empty: to be partitioned
  bool snapshot = false;  // memory for checkpoints that are written while training goes on

  int replicas() const { return parallelism.data; }
  int micro_batches() const {
    return static_cast<int>(training.global_batch /
                            (static_cast<std::int64_t>(parallelism.data) * training.micro_batch));
  }
  int virtual_stage_count() const { return parallelism.pipeline * parallelism.virtual_stages; }
  // Ranks that share one copy of sharded states: `shard`, or all of data * context with zero_stage
  // >= 1.
  int shard_group() const {
    if (parallelism.zero_stage == 0) return 1;
    return parallelism.shard > 1 ? parallelism.shard : parallelism.data * parallelism.context;
  }
  // One micro-batch is the first and the last one: what is sharded is kept as shards alone.
  // Otherwise, unless the plan says it, ZeRO 3 and, without stages, ZeRO 2 save memory; stages have
  // many micro-batches.
  bool reduces_each_micro_batch() const {
    const Parallelism& p = parallelism;
    const bool asked = p.reduce_gradients == ReduceGradients::each;
    if (p.data * p.context == 1) return false;
    if (micro_batches() == 1) return p.zero_stage >= (asked ? 1 : 2);
    if (p.reduce_gradients != ReduceGradients::usual) return asked;
    return p.zero_stage == 3 || (p.zero_stage == 2 && p.pipeline == 1);
  }
  // Of parameters that are kept from forward to backward: gathered once a step, as where several
  // micro-batches are in flight; else with every micro-batch.
  bool gathers_once_a_step() const {
    return parallelism.keeps_gathered && (!reduces_each_micro_batch() || parallelism.pipeline > 1);
  }
  // Degrees with `shard` as shard_group() says.
  Degrees degrees() const {
    Degrees d = parallelism.degrees();
    d.shard = shard_group();
    return d;
  }
  bool operator==(const Plan&) const = default;
};

// The sizes that the rules look at; from the model, known before any graph is built.
struct ModelSizes {
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, positions = 0;
  std::int64_t vocabulary = 0;
  bool learned_positions = false;
  int experts = 0;                // of every block; 0: none
  bool dropless = false;          // their rows are as many as tokens chose them
  bool choice_biases = false;     // routers have a bias for the choice alone
  bool balances = false;          // a loss of each sequence makes their use even
  int shared_ffn = 0;             // of experts for all tokens; 0: none
  int dense_ffn = 0;              // of blocks without experts, beside others; 0: none
  bool sinks = false;             // of attention
  bool latent = false;            // keys and values of all heads come from one latent vector
  int embedding = 0;              // width of the token table, where it is not the hidden size
  bool shares_layers = false;     // all blocks have the same parameters
  bool has_decoder = false;       // all blocks of a second stack read what the first one made
  bool reads_images = false;      // a sequence is an image: as many tokens as there are positions
  bool can_pack = true;           // it says the next token, and its layers are known
  bool can_predict_ahead = true;  // and its blocks read rows of RMSNorms, in places that they turn
};

// The one list of rules about a plan and the model it cuts. Throws InputError with "/json/pointer:
// problem; remedy" (the caller puts the file's name before it). Rules about the machine (ranks
// against GPUs) are the job's.
void verify(const Plan& plan, const ModelSizes& model);
std::vector<std::int64_t> divisors_of(std::int64_t number);  // for messages: long lists are cut

std::string recompute_word(const Training& training);  // with the number of group_N

// The words of the job file, in the order of the enumerators (dashes of the file's own spelling).
const std::vector<std::string>& schedule_names();   // of models/schedule/
const std::vector<std::string>& recompute_names();  // none selective full each contiguous group_N
const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& master_weights_names();  // fp32 remainders none
const std::vector<std::string>& attention_names();
const std::vector<std::string>& tensor_layout_names();     // megatron speed memory
const std::vector<std::string>& context_exchange_names();  // p2p all_gather all_to_all a2a+p2p
const std::vector<std::string>& offload_names();           // none activations layers optimizer
const std::vector<std::string>& reduce_gradients_names();  // default each last
const std::vector<std::string>& compiler_names();
const std::vector<std::string>& fp8_recipe_names();  // delayed tensorwise blockwise mxfp8
const std::vector<std::string>& memory_of_names();
const std::vector<std::string>& learning_rate_schedule_names();

}  // namespace meshwright
