// Defines the keys of the job file's section `training` (training_keys()), and reads those that a
// row of that table cannot describe, such as `recompute`, `lora` and `loss_scale`.
#include <fmt/format.h>
#include <limits>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright::job {

namespace {

constexpr Range batch = {
    .low = 1, .high = std::numeric_limits<std::int32_t>::max(), .by_reader = true};
constexpr Range minus_one_to_zero = {.low = -1, .high = 0};
constexpr Range amount = {.low = 0, .high = 1e9};

// Reads `recompute`: none, selective, full, each, contiguous, or group_ and the number of blocks in
// a group (group_4).
void read_recompute(Fields& fields, Job& job) {
  Training& training = job.plan.training;
  const std::string word = word_of(fields, "recompute");
  if (word.starts_with("group_")) {
    const std::string number = word.substr(6);
    const bool good = !number.empty() && number.size() < 6 &&
                      number.find_first_not_of("0123456789") == std::string::npos;
    if (!good || std::stoi(number) < 1)
      fields.fail("recompute", "'" + word + "' has no size; use group_2, group_3, ...");
    training.recompute = Recompute::group;
    training.recompute_group = std::stoi(number);
    return;
  }
  take_word(fields, "recompute", "recomputation", recompute_names(), training.recompute);
  // `each` recomputes every block by itself, which is the same as `full`.
  if (training.recompute == Recompute::each) training.recompute = Recompute::full;
}

Keys loss_scale_keys(LossScale& scale) {
  using enum How;
  return {
      {"initial", &scale.initial, above_zero, plain, "2^32", "the first scale"},
      {"factor", &scale.factor, above_one, plain, "", "by which it falls and grows"},
      {"window", &scale.window, at_least_one, plain, "", "good steps until it grows"},
      {"minimum", &scale.minimum, above_zero, plain, "", "below which it does not fall"},
      {"hysteresis", &scale.hysteresis, at_least_one, plain, "", "skipped steps until it falls"}};
}

void read_loss_scale(Fields& training, Job& job) {
  Fields fields = training.object("loss_scale");
  LossScale& scale = job.plan.training.loss_scale.emplace();
  if (fields.has("static")) {
    scale.initial = fields.required<double>("static");
    for (const Key& key : loss_scale_keys(scale))
      if (fields.has(key.name))
        fields.fail(key.name,
                    "is for a dynamic scale, and 'static' is given; leave one of them "
                    "out");
  } else {
    scale = {.dynamic = true, .initial = 4294967296.0};  // 2^32
    read_keys(fields, loss_scale_keys(scale), job);
  }
  fields.done();
}

json loss_scale_json(const Training& training) {
  if (!training.loss_scale) return nullptr;
  LossScale scale = *training.loss_scale;
  return scale.dynamic ? write_keys(loss_scale_keys(scale)) : json{{"static", scale.initial}};
}

constexpr std::string_view lora_targets = "target_modules";

void read_lora_targets(Fields& fields, std::vector<std::string>& targets) {
  if (!fields.is_string(lora_targets)) {
    targets = fields.required<std::vector<std::string>>(lora_targets);
    return;
  }
  const auto word = fields.required<std::string>(lora_targets);
  if (word != all_linear)
    fields.fail(lora_targets, "'" + word + "' is no list; use a list of names, or '" +
                                  std::string(all_linear) + "'");
  targets = {word};
}

json lora_targets_json(const Lora& lora) {
  const bool is_word = lora.target_modules == std::vector{std::string(all_linear)};
  return is_word ? json(all_linear) : json(lora.target_modules);
}

constexpr std::string_view base_weights = "base_weights";

json base_weights_json(const Lora& lora) {
  if (lora.base_weights == BaseWeights::unquantized) return nullptr;
  return base_weights_names()[static_cast<std::size_t>(lora.base_weights)];
}

Keys lora_keys(Lora& lora) {
  using enum How;
  return {{"rank", &lora.rank, by_reader(at_least_one), plain, "", "rows of A, columns of B"},
          {"alpha", &lora.alpha, by_reader(above_zero), plain, "", "alpha / rank is the factor"},
          {"dropout", &lora.dropout, by_reader(zero_to_below_one), plain, "", "of what A reads"},
          {lora_targets,
           code(
               "list of strings", {},
               [&lora](Fields& fields, Job&) { read_lora_targets(fields, lora.target_modules); },
               [&lora] { return lora_targets_json(lora); }),
           any, required, "", "names of linear layers"},
          {base_weights,
           code(
               "{}", base_weights_names(),
               [&lora](Fields& fields, Job&) {
                 take_word(fields, base_weights, "storage of weights", base_weights_names(),
                           lora.base_weights);
               },
               [&lora] { return base_weights_json(lora); }, R"({"const": "unquantized"})"),
           any, plain, "unquantized", "storage of the frozen linear layers of blocks"},
          {"double_quantization", &lora.double_quantization, any, if_set, "",
           "for `nf4`: 8-bit scales"},
          {"group_size", &lora.group_size, by_reader(at_least_zero), if_set, "128",
           "for `int4`: elements with one scale"}};
}

Keys adafactor_keys(Adafactor& settings) {
  using enum How;
  return {{"eps1", &settings.eps1, above_zero, plain, "", "added to squared gradients"},
          {"eps2", &settings.eps2, amount, plain, "", "least size of a parameter"},
          {"clip_threshold", &settings.clip_threshold, above_zero, plain, "", "of updates"},
          {"decay_rate", &settings.decay_rate, minus_one_to_zero, plain, "", "of second moments"},
          {"scale_parameter", &settings.scale_parameter, any, plain, "", "by a parameter's size"},
          {"relative_step", &settings.relative_step, any, plain, "", "at most 1 / sqrt(t)"}};
}

std::string loss_scale_type() {
  LossScale scale;
  return "`{static}` or " + type_of(loss_scale_keys(scale));
}

}  // namespace

Keys training_keys(Training& t) {
  using enum How;
  return {
      {"global_batch", &t.global_batch, batch, required, "",
       "sequences per step; a multiple of data × micro_batch"},
      {"sequence_length", &t.sequence_length, at_least_one, required, "",
       "tokens; at most the model's learned positions"},
      {"micro_batch", &t.micro_batch, at_least_one, auto_if_missing, "auto",
       "sequences that one replica processes at once"},
      {"precision",
       choice("precision", {"fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4", "fp64"}, t.precision),
       any, auto_if_missing, "machine: bf16, else fp16; fp32 on a CPU",
       "type of weights, activations and their gradients; every sum is made in fp32. `fp8` and "
       "`nvfp4` are bf16 whose linear layers multiply 8 or 4 bits, see [Precision](#precision). "
       "Refused where the machine lacks it; a CPU lacks `tf32`. `fp64`: captured models on CPUs"},
      {"fp8_recipe", choice("fp8 recipe", fp8_recipe_names(), t.fp8_recipe), any, plain, "",
       "for `precision: fp8`: which elements share a scale, see [Precision](#precision). Layers "
       "with a size that is no multiple of 16 (`blockwise`: 128, `mxfp8`: 32) stay in bf16"},
      {"fp8_experts", &t.fp8_experts, any, plain, "",
       "for `precision: fp8` and `nvfp4`: experts multiply 8 or 4 bits too; all experts of a "
       "layer on one rank are one tensor. Layers whose experts have a number of slots that is no "
       "multiple of 16 (`blockwise`: 128, `mxfp8`: 32) stay in bf16. On a GPU predicted, not run "
       "yet"},
      {"fp8_gathers", &t.fp8_gathers, any, if_set, "",
       "for `precision: fp8` with `zero_stage` 3 and `fp8_recipe: tensorwise`: weights that are "
       "only multiplied in 8 bits are rounded before they are gathered, once a step. The results "
       "are equal; half the bytes are sent and half the memory is needed for gathered weights"},
      {"first_layers_in_bf16", &t.first_layers_in_bf16, at_least_zero, if_set, "",
       "for `precision: fp8` and `nvfp4`: number of blocks at the beginning of the model (of an "
       "encoder and of a decoder each) that multiply 16 bits. Together with "
       "`last_layers_in_bf16` at most all blocks"},
      {"last_layers_in_bf16", &t.last_layers_in_bf16, at_least_zero, if_set, "",
       "number of blocks at the end of the model that multiply 16 bits, see "
       "`first_layers_in_bf16`. NVIDIA trains in nvfp4 with about 15 % of the blocks in bf16, "
       "most of them the last ones (arXiv 2509.25149)"},
      {"gradient_reduce_precision",
       choice("precision of the gradients' sum", {"fp32", "fp16", "bf16", "fp64"},
              {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64}, t.gradient_reduce),
       any, plain, "",
       "type in which gradients are stored and sent; sums over ranks are made in fp32 and "
       "rounded once. With `master_weights: none` the default is the 16 bits of the weights. "
       "`fp64` goes with that precision, whose default it is"},
      {"recompute",
       code("{}", recompute_names(), read_recompute, [&t] { return recompute_word(t); }), any,
       may_be_auto, "",
       "what the backward pass recomputes: `selective` attention with a score matrix in memory, "
       "`full` (or `each`) every block by itself, `contiguous` all consecutive blocks of a stage "
       "together, `group_3` up to three of them. See [Recomputation](#recomputation)"},
      {"recompute_modules", &t.recompute_modules, any, if_set, "",
       "instead of `recompute` (both: an error): the modules of blocks that are recomputed, each "
       "by itself. `*` stands for any one name: `[\"transformer.h.*.mlp\"]`. A path that holds "
       "whole blocks names each of them"},
      {"recompute_fraction", &t.recompute_fraction, zero_to_one, may_be_auto, "",
       "share of the blocks that `recompute` works on, evenly spread. `auto` takes 0.25, 0.5, 0.75 "
       "or 1"},
      {"recompute_budget", &t.recompute_budget, above_zero, plain, "",
       "instead of `recompute`, `recompute_modules` and `recompute_fraction` (both: an error): "
       "memory for the activations of one micro-batch on one virtual stage. Up to 1: share of "
       "what the stage saves without recomputation; above 1: bytes. See "
       "[Recomputation](#recomputation)"},
      {"attention", choice("attention", attention_names(), t.attention), any, auto_if_missing,
       "machine: cudnn on Hopper and newer, flash2 with bf16 hardware or on a CPU, else flash; "
       "unfused in fp32 on a GPU, and at `compiler: none`",
       "score matrix in memory (`unfused`), or fused kernels with equal results at different "
       "speeds. PyTorch, Transformer Engine and XLA choose `flash3` on Hopper and `cudnn` on "
       "Hopper and newer. The engine runs its own kernel, and for `cudnn` cuDNN's if that is "
       "installed and faster"},
      {"compiler", choice("compiler level", compiler_names(), t.compiler), any, may_be_auto, "",
       "level of the training compiler: `none` runs the operations of an eager framework, one "
       "kernel each, the optimizer's too; `fused` one hand-fused kernel per module; `full` all "
       "passes (`docs/compiler.md`, `meshwright list passes`, `meshwright compile JOB`). `auto`: "
       "the planner tries all three"},
      {"framework", choice("framework", framework_words(), t.framework), any, if_set,
       "meshwright: this engine",
       "whose step is predicted, and whose plans `plan` searches. PyTorch's frameworks are priced "
       "by what their kernels were measured to take. One without a word is the one that it is "
       "built "
       "on (torchtune: `pytorch`). `train` runs `meshwright`"},
      {"memory_of", choice("memory", memory_of_names(), t.memory_of), any, plain, "",
       "whose memory decides what fits and what `plan` proposes: this engine's, PyTorch's in "
       "mixed precision (autocast), or that of PyTorch/XLA with the step as one program. Times "
       "stay this engine's. See [Memory of a framework](#memory-of-a-framework)"},
      {"passes_off", &t.passes_off, any, if_set, "",
       "optional passes of the compiler that are left out, by name"},
      {"rematerialize_rows", &t.rematerialize_rows, any, plain,
       "where predicted memory is short without it",
       "for `compiler: full`: norms and activation functions are recomputed in the backward pass "
       "if their inputs are saved anyway. If unset, predicted memory decides, see "
       "[Recomputation](#recomputation). No effect with `recompute_budget` or `offload: layers`"},
      {"loss_block_bytes", &t.loss_block_bytes, by_reader(at_least_zero), if_set,
       "as many as predicted memory leaves room for",
       "for `compiler: full`: about how many bytes of logits the fused loss makes at once (at "
       "least 256 rows, at most 2^31 elements). If unset, all logits are one block if predicted "
       "memory has room for them; else blocks are as large as fits, down to 128 MiB"},
      {"fuse_gradient_accumulation", &t.fuse_gradient_accumulation, any, plain, "",
       "the fp32 main gradient is summed inside the GEMM"},
      {"cross_entropy_fusion", &t.cross_entropy_fusion, any, plain, "",
       "false, with `compiler: fused`: the loss is predicted as separate kernels (cast of the "
       "logits to fp32, maximum, difference, exponents, sum, division), as Megatron-LM runs it "
       "without `--cross-entropy-loss-fusion`. The engine runs its own kernel in both cases"},
      {"predicted_positions", &t.predicted_positions, by_reader(at_least_one), if_set,
       "15 % of the sequence", "`mlm` only"},
      {"packing", &t.packing, any, if_set, "",
       "a row of `sequence_length` tokens holds several documents: a token attends to its own "
       "document only, positions begin again with each, and its last token has no target. Head "
       "`lm` only. See [Packed sequences](#packed-sequences)"},
      {"documents_per_row", &t.documents_per_row, by_reader(at_least_one), plain,
       "1: attention as of whole rows",
       "for predictions with `packing`: mean number n of documents in a row. Fused attention has "
       "2 / (n + 1) of the work of whole rows. Rows of random tokens are cut into n. `train` "
       "prints the n of its data"},
      {"mtp_layers", &t.mtp_layers, at_least_zero, if_set, "0: none",
       "number of blocks for multi-token prediction, at most 8, see [Multi-token "
       "prediction](#multi-token-prediction). For decoders with RMSNorms, without learned "
       "positions, with `head` `lm`. Not supported yet with `packing`, `lora` and pairs"},
      {"mtp_loss_weight", &t.mtp_loss_weight, by_reader(at_least_zero), plain, "0.1",
       "for `mtp_layers`: weight of the mean of their losses, which is added to the model's own "
       "loss (DeepSeek-V3: 0.3 in the first two thirds of its tokens, then 0.1; Megatron-LM: "
       "`--mtp-loss-scaling-factor`)"},
      {"steps", &t.steps, at_least_one, plain, "", "optimizer steps; `--steps` overrides"},
      {"seed", &t.seed, by_reader(at_least_zero), plain, "",
       "of the initial values, of dropout and of random rounding"},
      {"optimizer", choice("optimizer", optimizer_names(), t.optimizer), any, plain, "",
       "see [Optimizers](#optimizers). `muon` needs `zero_stage` 0, or 1 with `shard_layout: "
       "whole`"},
      {"adafactor", object(t.adafactor, adafactor_keys), any, plain, "",
       "settings for `optimizer: adafactor`, with the names and defaults of transformers' "
       "Trainer, see [Optimizers](#optimizers)"},
      {"master_weights", choice("kind of master weights", master_weights_names(), t.master_weights),
       any, plain, "",
       "what the optimizer stores of weights that have 16 bits: `fp32` copies; `remainders`, the "
       "16 bits that bf16 lacks, with equal results in half the memory; `none`, so each step "
       "rounds to 16 bits. See [Optimizers](#optimizers)"},
      {"moments_precision",
       choice("precision of the moments", {"fp32", "bf16", "8bit", "fp64"},
              {Dtype::f32, Dtype::bf16, Dtype::block8, Dtype::f64}, t.moments),
       any, plain, "",
       "type in which the optimizer stores its moments; they are updated in fp32 and rounded "
       "(`moments_rounding`). `8bit`, for `adamw` and `adam`: block-wise codes, see "
       "[Optimizers](#optimizers). `fp64` goes with that "
       "precision, whose default it is"},
      {"moments_rounding",
       choice("rounding of the moments", {"nearest", "stochastic"}, t.moments_at_random), any,
       plain, "",
       "for `moments_precision: bf16`: `nearest`, as in other frameworks, or `stochastic`, whose "
       "mean is the moment itself. See [Optimizers](#optimizers)"},
      {"learning_rate", &t.learning_rate, amount, plain, "",
       "highest learning rate of the schedule"},
      {"warmup_steps", &t.warmup_steps, at_least_zero, plain, "",
       "w: before step w, step s has s / w of `learning_rate`. 0 means 1"},
      {"learning_rate_schedule",
       choice("learning rate schedule", learning_rate_schedule_names(), t.learning_rate_schedule),
       any, plain, "",
       "share of `learning_rate` that a step has after the warm-up, see [Learning "
       "rate](#learning-rate)"},
      {"decay_steps", &t.decay_steps, at_least_zero, if_set, "a tenth of `steps`",
       "for `warmup_stable_decay`: number of last steps, in which the rate falls"},
      {"weight_decay", &t.weight_decay, amount, plain, "", "applies to matrices only"},
      {"momentum", &t.momentum, zero_to_below_one, plain, "",
       "for `sgd`, and for the matrices of `muon`, where 0.95 is usual"},
      {"beta1", &t.beta1, zero_to_below_one, plain, "",
       "decay of the first moment, for `adamw`, `adam`, `lamb` and the parameters that `muon` "
       "leaves to `adamw`. For `lion`: of the moment in the update"},
      {"beta2", &t.beta2, zero_to_below_one, plain, "",
       "decay of the second moment, for the optimizers of `beta1`. For `lion`: of the moment "
       "that is stored"},
      {"epsilon", &t.epsilon, above_zero, plain, "",
       "for `adamw`, `adam` and `lamb`: added to the root of the second moment"},
      {"gradient_clip", &t.gradient_clip, amount, if_set, "0: off",
       "largest global norm of the gradients; larger ones are scaled down to it"},
      {"gradient_clip_value", &t.gradient_clip_value, amount, if_set, "0: off",
       "instead of `gradient_clip` (both: an error): each element of the gradient is limited to "
       "this distance from 0"},
      {"ema_decay", &t.ema_decay, zero_to_below_one, if_set, "0: none is kept",
       "decay of an exponential moving average of the weights, in fp32: 4 bytes for each trained "
       "parameter, sharded like the masters. Checkpoints store it, and `export-weights --ema` "
       "writes it. See [Optimizers](#optimizers). Not supported yet with "
       "`router_bias_update_rate`"},
      {"lora", object(t.lora, lora_keys), any, plain, "",
       "low-rank adapters: each linear layer W x that `target_modules` names becomes W x + "
       "(`alpha` / `rank`) B A x. Only A and B are trained. `dropout` is that of what A reads. "
       "`base_weights` stores the others in 4 bits. See [Adapters](#adapters)"},
      {"dropout", &t.dropout, zero_to_below_one, plain, "",
       "after the embeddings, of attention probabilities, after attention's output projection "
       "and after the MLP, in every family. T5, and BART if its configuration says so, have it "
       "after the MLP's activation too. Degrees and recomputation do not change which elements "
       "are dropped"},
      {"router_bias_update_rate", &t.router_bias_update_rate, zero_to_one, if_set, "0: biases stay",
       "for models whose routers add a bias to the scores for the choice only "
       "(`docs/models.md`): by how much an expert's bias changes after each step. See [Balanced "
       "and unequal experts](#balanced-and-unequal-experts)"},
      {"expert_imbalance", &t.expert_imbalance, at_least_one, plain, "1: equal use",
       "for predictions: tokens of the most loaded rank of an expert group relative to the mean, "
       "in each layer, at most `expert`. The other ranks wait for it. Needs `expert_dropless`. "
       "`train` ignores this key. See [Balanced and unequal "
       "experts](#balanced-and-unequal-experts)"},
      {"expert_skew", &t.expert_skew, amount, if_set, "0: equal use",
       "for predictions, instead of `expert_imbalance` (both: an error): tokens choose experts "
       "by Zipf's law with this exponent. Needs `expert_dropless`. See [Balanced and unequal "
       "experts](#balanced-and-unequal-experts)"},
      {"measure_expert_load", &t.measure_expert_load, any, plain, "",
       "`train` counts how many tokens choose each expert and reports for every step the load of "
       "the most loaded rank of an expert group relative to the mean (`expert_load`), which "
       "`expert_imbalance` should be in a prediction. See [Balanced and unequal "
       "experts](#balanced-and-unequal-experts)"},
      {"loss_scale",
       code(loss_scale_type(), {}, read_loss_scale, [&t] { return loss_scale_json(t); }), any,
       plain, "",
       "fp16 only, and there by default `{}`. A step whose scaled gradients are not finite is "
       "skipped, also in the count for warm-up and bias correction. After `hysteresis` such "
       "steps the scale falls by `factor`; after `window` good steps it grows by `factor`"},
      {"deterministic", &t.deterministic, any, if_set, "",
       "for ranks on GPUs: no algorithm is chosen by timing and attention is not cuDNN's, so "
       "every run has the same bits on every GPU of one kind. Predictions are for the "
       "deterministic mode of frameworks. See [Deterministic runs](#deterministic-runs)"},
      {"cuda_graph", &t.cuda_graph, any, plain, "where no messages travel between stages",
       "a step on GPUs is recorded once and started as one CUDA graph, except while it is "
       "traced, and with the communicator `mpi`. `true` does so with pipelines too; predictions "
       "then have no host time for each kernel"}};
}

namespace {

// Gives gradients the type of their weights, as in PyTorch, if the weights are their own masters
// and the job does not say another type. settle() does so again where the precision is open.
void settle_gradients(Training& training, bool has_precision) {
  if (training.master_weights != MasterWeights::none) return;
  const Dtype weights = has_precision ? storage_of(training.precision) : Dtype::bf16;
  if (is_16_bit(weights)) training.gradient_reduce = weights;
}

}  // namespace

void read_training(Fields fields, Job& job) {
  read_keys(fields, training_keys(job.plan.training), job);
  if (!fields.has("gradient_reduce_precision"))
    settle_gradients(job.plan.training, !job.is_auto("training.precision"));
  job.has_steps = fields.has("steps");
  if (job.is_auto("training.recompute") && job.plan.training.recompute_budget)
    fields.fail("recompute_budget", "given beside recompute 'auto'; keep one of them");
  fields.done();
}

json to_json(Training training) { return write_keys(training_keys(training)); }

}  // namespace meshwright::job
