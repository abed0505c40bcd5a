// Defines the keys of the job file's section `training` (training_keys()), and reads those that a
// row of that table cannot describe, such as `recompute`, `lora` and `loss_scale`.
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright {

using nlohmann::json;

namespace {

constexpr Range batch = {
    .low = 1, .high = std::numeric_limits<std::int32_t>::max(), .by_reader = true};
constexpr Range minus_one_to_zero = {.low = -1, .high = 0};
constexpr Range amount = {.low = 0, .high = 1e9};

// Reads `recompute`: none, selective, full, each, contiguous, or group_ and the number of blocks in
// a group (group_4).
void read_recompute(Fields& fields, Job& job) {
  Training& training = job.plan.training;
  const std::string word = fields.required<std::string>("recompute");
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

void read_loss_scale(Fields& training, Job& job) {
  Fields fields = training.object("loss_scale");
  LossScale& scale = job.plan.training.loss_scale.emplace();
  if (fields.has("static")) {
    scale.initial = fields.required<double>("static");
    for (const Key& key : loss_scale_keys(scale))
      if (fields.has(key.name))
        fields.fail(key.name, "goes with a moving scale; leave it out, or 'static'");
  } else {
    scale = {.dynamic = true, .initial = 4294967296.0};  // 2^32
    read_keys(fields, loss_scale_keys(scale), job);
  }
  fields.done();
}

void read_adafactor(Fields& training, Job& job) {
  Fields fields = training.object("adafactor");
  read_keys(fields, adafactor_keys(job.plan.training.adafactor), job);
  fields.done();
}

json adafactor_json(const Training& training) {
  if (training.adafactor == Adafactor{}) return nullptr;
  Adafactor settings = training.adafactor;
  return write_keys(adafactor_keys(settings));
}

std::string adafactor_type() {
  Adafactor settings;
  std::string keys;
  for (const Key& key : adafactor_keys(settings))
    keys += fmt::format("{}{} [{}]", keys.empty() ? "" : ", ", key.name, default_of(key));
  return "`{" + keys + "}`";
}

json loss_scale_json(const Training& training) {
  if (!training.loss_scale) return nullptr;
  LossScale scale = *training.loss_scale;
  return scale.dynamic ? write_keys(loss_scale_keys(scale)) : json{{"static", scale.initial}};
}

void read_lora(Fields& training, Job& job) {
  Fields fields = training.object("lora");
  Lora& lora = job.plan.training.lora.emplace();
  if (fields.is_string("target_modules")) {
    const auto word = fields.required<std::string>("target_modules");
    if (word != all_linear)
      fields.fail("target_modules", "'" + word + "' is no list; use a list of names, or '" +
                                        std::string(all_linear) + "'");
    lora.target_modules = {word};
  }
  Keys keys = lora_keys(lora);
  if (!lora.target_modules.empty()) keys.pop_back();
  read_keys(fields, keys, job);
  fields.done();
}

json lora_json(const Training& training) {
  if (!training.lora) return nullptr;
  Lora lora = *training.lora;
  json written = write_keys(lora_keys(lora));
  if (lora.target_modules == std::vector<std::string>{std::string(all_linear)})
    written["target_modules"] = all_linear;
  return written;
}

std::string lora_type() {
  Lora lora;
  std::string keys;
  for (const Key& key : lora_keys(lora)) {
    const std::string usual = default_of(key);
    keys += (keys.empty() ? "" : ", ") + std::string(key.name);
    if (!usual.empty()) keys += " [" + usual + "]";
  }
  return "`{" + keys + "}`";
}

std::string loss_scale_type() {
  LossScale scale;
  std::string keys;
  for (const Key& key : loss_scale_keys(scale))
    keys += fmt::format("{}{} [{}]", keys.empty() ? "" : ", ", key.name, default_of(key));
  return "`{static}` or `{" + keys + "}`";
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
       choice("precision", {"fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4"}, t.precision), any,
       auto_if_missing, "machine: bf16, else fp16; fp32 on a CPU",
       "refused where the machine lacks it (a CPU: `tf32`). 16 bits: weights, activations and "
       "their gradients are stored in them, every sum is made in fp32 (`master_weights` and "
       "`moments_precision`: what the optimizer keeps). "
       "`fp8`: as bf16, but the linear layers of blocks multiply what is rounded to 8 bits "
       "(`fp8_recipe`), and keep that of their inputs; sizes must be multiples of 16. The head, "
       "the embedding, attention, routers and, unless `fp8_experts` says otherwise, experts stay "
       "in "
       "bf16. A CPU rounds in the same way and multiplies in fp32. `nvfp4`: the same in 4 bits "
       "(e2m1), as NVIDIA trains in them: 16 elements along the sums have a scale in e4m3 (of "
       "weights 16 x 16), a tensor one in fp32 of its largest element in this micro-batch on this "
       "rank; gradients are rounded at random, by `seed`; what gradients of weights sum over goes "
       "through a random Hadamard transform of 16 first. Layers with a size that is no multiple of "
       "16 stay in bf16. Refused where the machine has no peak in fp4; run on CPUs so far"},
      {"fp8_recipe", choice("fp8 recipe", fp8_recipe_names(), t.fp8_recipe), any, plain, "",
       "of `precision: fp8`: what has a scale of its own among what linear layers multiply. "
       "`tensorwise` a tensor, of its largest element in this micro-batch on this rank (where "
       "ranks of the tensor group gather rows: in the group), so other degrees round otherwise; "
       "`delayed` a tensor, of its largest element in the last 1024 steps on all ranks, which "
       "saves a "
       "pass over it (before there are any 1, of gradients the number of targets; what is larger "
       "than before becomes the format's largest number; checkpoints keep the history); both with "
       "gradients in e5m2. `blockwise` 1 x 128 elements, of weights 128 x 128; "
       "`mxfp8` 32 elements along the sums; both with powers of two, and gradients in e4m3. Layers "
       "with a size that is no multiple of 16 (128, 32) stay in bf16"},
      {"fp8_experts", &t.fp8_experts, any, plain, "",
       "of `precision: fp8` and `nvfp4`: experts multiply 8 or 4 bits too, with scales as "
       "`fp8_recipe` (`nvfp4`) says; all "
       "experts of a layer that a rank has are one tensor. Layers whose experts have a number of "
       "slots (of one micro-batch) that is no multiple of 16 (128, 32) stay in bf16. On a GPU "
       "predicted, not run yet"},
      {"fp8_gathers", &t.fp8_gathers, any, if_set, "",
       "of `precision: fp8` and `zero_stage` 3: weights that are multiplied in 8 bits alone are "
       "rounded by the ranks that share them, once a step, and gathered in 8 bits: the same "
       "numbers, half the bytes, and half the memory of what is gathered. `fp8_recipe: tensorwise` "
       "alone. (PyTorch: `enable_fsdp_float8_all_gather`. Megatron's `fp8_param_gather` is this "
       "with `reshard_after_forward: never` and `reduce_gradients: last`)"},
      {"first_layers_in_bf16", &t.first_layers_in_bf16, at_least_zero, if_set, "",
       "of `precision: fp8` and `nvfp4`: so many blocks at the beginning of the model multiply 16 "
       "bits all the same (of an encoder and a decoder: of each). Together with "
       "`last_layers_in_bf16` at most all"},
      {"last_layers_in_bf16", &t.last_layers_in_bf16, at_least_zero, if_set, "",
       "the same at the end. NVIDIA trains in nvfp4 with about 15 % of the blocks in bf16, most of "
       "them the last ones (arXiv 2509.25149)"},
      {"gradient_reduce_precision",
       choice("precision of the gradients' sum", {"fp32", "fp16", "bf16"},
              {Dtype::f32, Dtype::f16, Dtype::bf16}, t.gradient_reduce),
       any, plain, "",
       "type in which gradients are kept and travel; sums of ranks are made in fp32 and rounded "
       "once"},
      {"recompute",
       code("{}", recompute_names(), read_recompute, [&t] { return recompute_word(t); }), any,
       may_be_auto, "",
       "what is made again in the backward pass instead of kept: `selective` attention where it "
       "has a score matrix in memory (`attention: unfused`; fused kernels have none, so nothing is "
       "repeated), `full` (or `each`) every block by itself, `contiguous` all consecutive blocks "
       "of a stage together, `group_3` up to three of them: fewer inputs are kept, more working "
       "space is needed. `auto` chooses among `none full`, and `selective` where scores are in "
       "memory"},
      {"recompute_modules", &t.recompute_modules, any, if_set, "",
       "instead of `recompute` (both: an error): the modules of blocks that are made again, each "
       "by itself; `*` stands for any one name: `[\"transformer.h.*.mlp\"]`. A path that holds "
       "whole blocks names each of them"},
      {"recompute_fraction", &t.recompute_fraction, zero_to_one, may_be_auto, "",
       "share of the blocks that `recompute` works on, evenly spread. `auto` takes 0.25, 0.5, 0.75 "
       "or 1"},
      {"recompute_budget", &t.recompute_budget, above_zero, plain, "",
       "instead of `recompute`, `recompute_modules` and `recompute_fraction` (beside one: an "
       "error): memory for the activations of one micro-batch on one virtual stage. Up to 1: the "
       "share of what that stage keeps without recomputation; above 1: bytes. Counted are what is "
       "kept from forward to backward, and the most that is made again and live at one time. "
       "Within it, tensor by tensor, what costs least is made again (at most 1 % more than the "
       "cheapest choice; a block's input is always kept). At `compiler: full` fused operations may "
       "hold a little more than that while they run. Too small: an error that names the smallest "
       "one. With `offload` of activations: an error; with `zero_bubble` and its kin: not "
       "supported yet"},
      {"attention", choice("attention", attention_names(), t.attention), any, auto_if_missing,
       "machine: cudnn on Hopper and newer, flash2 with bf16 hardware or on a CPU, else flash; "
       "unfused in fp32 on a GPU, and at `compiler: none`",
       "score matrix in memory, or fused. The fused kernels give the same results at different "
       "speeds; `flash3` (Hopper) and `cudnn` (Hopper and newer) are those that PyTorch, "
       "Transformer Engine and XLA choose there. The engine runs its own kernel for all of them, "
       "and for `cudnn` cuDNN's where that is there and faster"},
      {"compiler", choice("compiler level", compiler_names(), t.compiler), any, may_be_auto, "",
       "the training compiler's level: `none` runs the operations of an eager framework, a kernel "
       "each, the optimizer's too; `fused` one hand-fused kernel per module; `full` all passes "
       "(`docs/compiler.md`, `meshwright list passes`, `meshwright compile JOB`). `auto`: the "
       "planner tries all three"},
      {"memory_of", choice("memory", memory_of_names(), t.memory_of), any, plain, "",
       "whose memory decides what fits and, with `plan`, what is proposed: this engine's, "
       "PyTorch's in mixed precision (autocast, operation by operation), or that of the same step "
       "as one program of PyTorch/XLA, as SageMaker's Training Compiler ran it. The frameworks' is "
       "known of data parallelism alone, with attention `unfused` (then the default), without "
       "ZeRO, recomputation or offloading, in fp16 or bf16, with `adamw` or `adam`, on machines "
       "whose profile says what a framework finds of its memory (V100, T4, A10G, A100); anything "
       "else is refused, and `auto` does not look for it. Times stay this engine's. "
       "`docs/largest-batch.md`"},
      {"passes_off", &t.passes_off, any, if_set, "",
       "optional passes of the compiler that are left out, by name"},
      {"rematerialize_rows", &t.rematerialize_rows, any, plain,
       "where predicted memory is short without it",
       "of `compiler: full`: norms and activation functions are made again in the backward rather "
       "than kept, where what they read is kept anyway. Left out, that is done for the whole job "
       "where its predicted peak would otherwise leave less than 3 % (`--memory-margin`) of a "
       "device's memory free; what was decided is in the plan that `plan --write` writes. Without "
       "effect beside `recompute_budget` and `offload: layers`"},
      {"loss_block_bytes", &t.loss_block_bytes, by_reader(at_least_zero), if_set,
       "as many as predicted memory leaves room for",
       "of `compiler: full`: about how many bytes of logits the fused loss makes at once (at least "
       "256 rows, at most 2^31 elements). Each block reads and writes the fp32 gradient of the "
       "head's table. Left out, all logits are one block where predicted memory has room for them; "
       "else blocks are as large as fit, down to 128 MiB"},
      {"fuse_gradient_accumulation", &t.fuse_gradient_accumulation, any, plain, "",
       "the fp32 main gradient is summed inside the GEMM"},
      {"cross_entropy_fusion", &t.cross_entropy_fusion, any, plain, "",
       "false: of `compiler: fused`, the loss is predicted as kernels of its own for the cast of "
       "the logits to fp32, their maximum, difference, exponents, sum and division, as Megatron-LM "
       "has it without `--cross-entropy-loss-fusion`; the engine runs its own either way"},
      {"predicted_positions", &t.predicted_positions, by_reader(at_least_one), if_set,
       "15 % of the sequence", "`mlm` only"},
      {"packing", &t.packing, any, if_set, "",
       "a row of `sequence_length` tokens holds several documents: a token attends to its own "
       "alone, positions begin again with each, and the last token of one has no target "
       "(Megatron-LM: `--reset-attention-mask --reset-position-ids --eod-mask-loss`). What a "
       "document is says `data`. Head `lm` only"},
      {"documents_per_row", &t.documents_per_row, by_reader(at_least_one), plain,
       "1: attention as of whole rows",
       "of `packing`, for predictions: how many documents a row has in the mean, n. Fused "
       "attention then has 2 / (n + 1) of the work of whole rows, as if a row were cut at n - 1 "
       "random places. Without `data` the rows that are made up are cut so. `train` says what "
       "this is of its data"},
      {"mtp_layers", &t.mtp_layers, at_least_zero, if_set, "0: none",
       "multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): so many blocks behind "
       "the model's own, like its last one; the k-th reads what the one before it made and the "
       "token k further on, and predicts the one behind it through the model's head. They are on "
       "the stage of the head, which then has a copy of the table of tokens. Of decoders "
       "with RMSNorms and without learned positions, `head` `lm`; at most 8. Not supported yet "
       "with `packing`, `lora` and pairs. `eval` has the next token's loss alone"},
      {"mtp_loss_weight", &t.mtp_loss_weight, by_reader(at_least_zero), plain, "0.1",
       "of `mtp_layers`: the weight of the mean of their losses, which is added to the model's "
       "own. Each is a mean over the tokens that are there (DeepSeek-V3: 0.3 in the first two "
       "thirds of its tokens, then 0.1; Megatron-LM: `--mtp-loss-scaling-factor`)"},
      {"steps", &t.steps, at_least_one, plain, "", "optimizer steps; `--steps` overrides"},
      {"seed", &t.seed, by_reader(at_least_zero), plain, "", "initial values"},
      {"optimizer", choice("optimizer", optimizer_names(), t.optimizer), any, plain, "",
       "`lamb`: trust ratio of whole parameters, however they are cut; `lion`: one moment, of "
       "which the sign is the update; `muon`: matrices of linear layers in blocks by their "
       "momentum "
       "(Nesterov's), made orthogonal by five Newton-Schulz steps in fp32 and multiplied by 0.2 "
       "sqrt(longer side), all other parameters by `adamw`; ranks of a tensor group gather the "
       "updates of the matrices they share; `zero_stage` 0, or 1 with `shard_layout: whole`; "
       "`adafactor`: no first moment, and of matrices second moments of rows and columns alone "
       "(`adafactor`), of whole matrices however they are cut"},
      {"adafactor", code(adafactor_type(), {}, read_adafactor, [&t] { return adafactor_json(t); }),
       any, plain, "",
       "of `optimizer: adafactor` (Shazeer and Stern 2018), in the words of transformers, whose "
       "Trainer has these defaults. Second moments are means of squares + `eps1`, with the "
       "weight 1 - t^`decay_rate` of the past in step t; an update whose root mean square is above "
       "`clip_threshold` is scaled down to it. `relative_step`: the learning rate is at most "
       "1 / sqrt(t) (with `learning_rate` 0.01 as in transformers and `torch.optim.Adafactor`). "
       "`scale_parameter`: it is multiplied by the root mean square of the parameter, at least "
       "`eps2`. A step has three passes over the gradients, and sums of rows and columns are added "
       "over the ranks that share a matrix. Matrices have two dimensions of 2 and more here; all "
       "else keeps its second moments"},
      {"master_weights", choice("kind of master weights", master_weights_names(), t.master_weights),
       any, plain, "",
       "what the optimizer keeps of weights that are stored in 16 bits: `fp32`; `remainders`, the "
       "16 bits that bf16 lacks, so the same numbers in half the memory (Megatron-Core, "
       "Transformer Engine and Apex: `store_param_remainders`); `none`: each step rounds the "
       "weights to 16 bits (Apex's and NeMo's optimizer `dtype: bf16`). Frameworks that keep fp32 "
       "copy 16-bit gradients to fp32 for the optimizer, the others read them as they are, and "
       "keep weights of 8 bits in bf16 too. Other than `fp32`: refused at `compiler: none`"},
      {"moments_precision",
       choice("precision of the moments", {"fp32", "bf16", "8bit"},
              {Dtype::f32, Dtype::bf16, Dtype::block8}, t.moments),
       any, plain, "",
       "type in which the optimizer keeps its moments; they are brought up to date in fp32 and "
       "rounded (`moments_rounding`). `8bit`, of `adamw` and `adam`: block-wise, as 8-bit "
       "optimizers keep them (Dettmers et al. 2022, bitsandbytes, torchao): for each 256 "
       "neighbouring elements of a parameter an fp32 scale, the largest magnitude among them, and "
       "for each element the nearest code of dynamic quantization, of the second moment without a "
       "sign and never 0 for what is above 0; 2.03 bytes for each parameter. Blocks lie at every "
       "256 elements of the whole parameter, so degrees and `offload` change no bits of them; a "
       "tensor or expert degree that leaves a rank other than multiples of 256 neighbouring "
       "elements is refused. `bf16`: refused at `compiler: none`"},
      {"moments_rounding",
       choice("rounding of the moments", {"nearest", "stochastic"}, t.moments_at_random), any,
       plain, "",
       "of `moments_precision: bf16`: `nearest`, as Megatron-LM's precision-aware optimizer and "
       "the other frameworks: what a step changes by less than 1/512 of itself stays, so with "
       "`beta2` 0.999 second moments grow and never fall. `stochastic`: to either neighbour, the "
       "more often the nearer it is, such that the mean is the moment itself. Which one follows "
       "from `seed`, the number of the update, the parameter's name, the element's place in the "
       "whole parameter and which moment it is: degrees, buckets and `offload` do not change it, "
       "and a run that is resumed goes on to the same bits"},
      {"learning_rate", &t.learning_rate, amount, plain, "", "the highest of the schedule"},
      {"warmup_steps", &t.warmup_steps, at_least_zero, plain, "",
       "w: before step w, step s has s / w of `learning_rate`; 0 is as 1"},
      {"learning_rate_schedule",
       choice("learning rate schedule", learning_rate_schedule_names(), t.learning_rate_schedule),
       any, plain, "",
       "what share of `learning_rate` a step has after the warm-up. In step s of T = `steps`, "
       "counted from 1, with w = `warmup_steps` or 1 and d = (s - w) / (T - w + 1): `linear` has "
       "1 - d, `cosine` (1 + cos(π d)) / 2. Both are 1 in step w and would be 0 in step T + 1, so "
       "the last step still learns. `warmup_stable_decay` stays at 1, and falls as `linear` with "
       "w = T - `decay_steps`; `inverse_sqrt` has the root of w / s. The schedules of transformers "
       "are one step later: 0 in step 1, 1 in step w + 1, with T - w under the fraction"},
      {"decay_steps", &t.decay_steps, at_least_zero, if_set, "a tenth of `steps`",
       "of `warmup_stable_decay`: the last steps, in which the rate falls"},
      {"weight_decay", &t.weight_decay, amount, plain, "", "matrices only"},
      {"momentum", &t.momentum, zero_to_below_one, plain, "",
       "of `sgd`, and of the matrices of `muon`, where 0.95 is usual"},
      {"beta1", &t.beta1, zero_to_below_one, plain, "",
       "`adamw`, `adam`, `lamb` and, beside matrices, `muon`: of the first moment; of `lion`: of "
       "the moment that is in the "
       "update"},
      {"beta2", &t.beta2, zero_to_below_one, plain, "",
       "the same, of the second moment; of `lion`: of the moment that is kept"},
      {"epsilon", &t.epsilon, above_zero, plain, "",
       "of `adamw`, `adam` and `lamb`: added to the root of the second moment"},
      {"gradient_clip", &t.gradient_clip, amount, if_set, "0: off", "by global norm"},
      {"gradient_clip_value", &t.gradient_clip_value, amount, if_set, "0: off",
       "instead of `gradient_clip` (both: an error): each element of the gradient is moved into "
       "this distance from 0"},
      {"ema_decay", &t.ema_decay, zero_to_below_one, if_set, "0: none is kept",
       "an exponential moving average of the weights in fp32: it begins as the weights do, and "
       "after each step becomes `ema_decay` times itself and the rest times the masters (without "
       "masters: the weights before they are rounded). 4 bytes for each parameter that is trained, "
       "sharded as the masters are. Checkpoints keep it, `export-weights --ema` writes it; a run "
       "that goes on from imported weights, or from a checkpoint without one (`--allow-changed "
       "training.ema_decay`), begins it there. A step that is skipped changes "
       "nothing. Not supported yet with `router_bias_update_rate`"},
      {"lora", code(lora_type(), {}, read_lora, [&t] { return lora_json(t); }), any, plain, "",
       "low-rank adapters: beside each linear layer that `target_modules` names, W x becomes W x + "
       "(`alpha` / `rank`) B A x; A and B are trained, the model's own parameters are not: they "
       "have "
       "no gradients, no masters and no moments, and checkpoints leave them out. "
       "`target_modules`: names as peft takes them, ends of module paths (`q_proj`, "
       "`self_attn.q_proj`, `layers.3.*.q_proj`, where `*` is any one name), or `all-linear`: all "
       "in blocks. `dropout`: of what A reads. `docs/cookbook.md` has the road from a model of "
       "transformers to an adapter that peft loads"},
      {"dropout", &t.dropout, zero_to_below_one, plain, "",
       "after the embeddings, of attention probabilities, after attention's output projection and "
       "after the MLP, in every family; of T5, and of BART where its configuration says so, behind "
       "the MLP's activation too. Which elements are dropped follows from the seed, the sequence's "
       "position in the run, the module and the element, so degrees and recomputation do not "
       "change it."},
      {"router_bias_update_rate", &t.router_bias_update_rate, zero_to_one, if_set, "0: biases stay",
       "of models whose routers add a bias to the scores for the choice alone (`docs/models.md`): "
       "after each step, the bias of an expert that fewer tokens of the global batch chose than "
       "the mean of its layer's experts grows by this, that of one that more chose falls "
       "(balancing without a loss, as DeepSeek-V3, which used 0.001; Megatron-LM's "
       "`--moe-router-bias-update-rate`). Tokens that found no room count. A step that is skipped "
       "moves nothing"},
      {"expert_imbalance", &t.expert_imbalance, at_least_one, plain, "1: equal use",
       "for predictions: the rank of an expert group whose experts are chosen most gets so many "
       "times the mean of tokens, in each layer, and all wait for it; at most `expert`. Of models "
       "with `expert_dropless`, whose products work on as many rows as there are; what ranks "
       "exchange is planned (`expert_rank_capacity_factor`), whatever comes. A run is what it is"},
      {"expert_skew", &t.expert_skew, amount, if_set, "0: equal use",
       "for predictions, instead of `expert_imbalance` (both: an error): tokens choose experts by "
       "Zipf's law. Of a layer's experts in the order of their popularity the r-th is chosen in "
       "proportion to r to the power of -`expert_skew`. Which experts are popular is drawn from "
       "`seed` for each of 64 layers; the fullest rank gets the mean over these. The fewer experts "
       "a rank has, the more that is. Of models with `expert_dropless`"},
      {"measure_expert_load", &t.measure_expert_load, any, plain, "",
       "`train` counts how many tokens choose each expert and says, of every step, how many times "
       "the mean the rank of an expert group gets whose experts are chosen most, as a mean over "
       "the layers (`expert_load`): what `expert_imbalance` of a prediction is meant to be. With "
       "`expert` 1 it is the most chosen expert against the mean of all. Of the global batch; "
       "tokens that found no room count"},
      {"loss_scale",
       code(loss_scale_type(), {}, read_loss_scale, [&t] { return loss_scale_json(t); }), any,
       plain, "",
       "fp16 only, and there by default `{}`. A step whose scaled gradients are not finite is "
       "skipped: the scale falls by `factor` (after `hysteresis` of them), and grows again after "
       "`window` good steps; warm-up and bias correction do not count it"},
      {"deterministic", &t.deterministic, any, if_set, "",
       "of ranks on GPUs: no algorithm is chosen by timing and attention is not cuDNN's, so every "
       "run has the same bits on every GPU of a kind. Without cuDNN, ranks that share a folder of "
       "kept choices (`docs/gpu.md`) have the same bits without it. Predictions are of the "
       "frameworks' deterministic mode "
       "(`torch.use_deterministic_algorithms`, Megatron's `--deterministic-mode`): the gradient "
       "of `flash2` attention sums in a fixed order, which leaves multiprocessors idle, and new "
       "tensors are filled before they are used"},
      {"cuda_graph", &t.cuda_graph, any, plain, "where no messages travel between stages",
       "a step on GPUs is recorded once and started as one CUDA graph (never while it is traced, "
       "nor with the communicator `mpi`). `true` does so with pipelines too, and predictions then "
       "have no host time for each kernel"}};
}

Keys lora_keys(Lora& lora) {
  using enum How;
  return {{"rank", &lora.rank, by_reader(at_least_one), plain, "", "rows of A, columns of B"},
          {"alpha", &lora.alpha, by_reader(above_zero), plain, "", "alpha / rank is the factor"},
          {"dropout", &lora.dropout, by_reader(zero_to_below_one), plain, "", "of what A reads"},
          {"target_modules", &lora.target_modules, any, required, "", "names of linear layers"}};
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

Keys loss_scale_keys(LossScale& scale) {
  using enum How;
  return {
      {"initial", &scale.initial, above_zero, plain, "2^32", "the first scale"},
      {"factor", &scale.factor, above_one, plain, "", "by which it falls and grows"},
      {"window", &scale.window, at_least_one, plain, "", "good steps until it grows"},
      {"minimum", &scale.minimum, above_zero, plain, "", "below which it does not fall"},
      {"hysteresis", &scale.hysteresis, at_least_one, plain, "", "skipped steps until it falls"}};
}

void read_training(Fields fields, Job& job) {
  read_keys(fields, training_keys(job.plan.training), job);
  job.has_steps = fields.has("steps");
  if (job.is_auto("training.recompute") && job.plan.training.recompute_budget)
    fields.fail("recompute_budget", "given beside recompute 'auto'; keep one of them");
  fields.done();
}

json to_json(Training training) { return write_keys(training_keys(training)); }

}  // namespace meshwright
