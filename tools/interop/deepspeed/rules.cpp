// Translates between ds_config.json and the keys of the job file. transformers' Trainer replaces
// "auto" by values of its arguments. An "auto" counts as absent here, and the Trainer's argument is
// read instead if there is one. Two sizes that follow from the model's hidden size are computed as
// the Trainer does.
#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/deepspeed/deepspeed.h"
#include "tools/interop/launch/cluster_rule.h"

namespace meshwright::interop {

namespace {

// Returns whether the setting is present and neither null nor "auto". A setting that is "auto"
// counts as read too.
bool says(Settings& from, const char* name) {
  if (!from.has(name)) return false;
  const Setting* const setting = from.read(name);
  return setting != nullptr && setting->value != "auto";
}

std::optional<std::int64_t> whole(Settings& from, const char* name) {
  return says(from, name) ? from.whole(name) : std::nullopt;
}
std::optional<std::int64_t> count(Settings& from, const char* name) {
  return says(from, name) ? from.count(name) : std::nullopt;
}
std::optional<double> number(Settings& from, const char* name) {
  return says(from, name) ? from.number(name) : std::nullopt;
}
std::optional<bool> flag(Settings& from, const char* name) {
  return says(from, name) ? from.flag(name) : std::nullopt;
}

// Returns whether DeepSpeed starts a program whose settings of DeepSpeed are in its code, since no
// file of them is there.
bool is_settled_by_code(const Settings& from) {
  return from.launcher() == "deepspeed" &&
         std::ranges::none_of(from.all(), [](const Setting& each) {
           for (const char* part : {"zero_optimization.", "fp16.", "bf16.", "optimizer.",
                                    "train_micro_batch_size_per_gpu", "steps_per_print"})
             if (each.name.starts_with(part)) return true;
           return false;
         });
}

// Returns a switch of ds_config.json, or, if it is absent or "auto" there, that of the Trainer's
// arguments, or false.
bool switched(Settings& from, const char* name, const char* argument) {
  const std::optional<bool> own = flag(from, name), trainers = from.flag(argument);
  return own.value_or(trainers.value_or(false));
}

void read_precision(Settings& from, JobDraft& to) {
  const bool bf16 =
      switched(from, "bf16.enabled", "bf16") || flag(from, "bfloat16.enabled") == true;
  const bool fp16 = switched(from, "fp16.enabled", "fp16");
  const bool autocast = flag(from, "torch_autocast.enabled").value_or(false);
  const bool amp = flag(from, "amp.enabled").value_or(false);
  const bool fp8 = from.word("mixed_precision").value_or("") == "fp8";  // LLaMA-Factory's
  const std::string backend = from.word("fp8_config.fp8_backend").value_or("");
  if (bf16 && fp16) from.fail("fp16.enabled", "given beside bf16; keep one of them");
  const bool is_open = !fp8 && !bf16 && !fp16 && !has_trainer(from) &&
                       ((from.has("bf16.enabled") && !says(from, "bf16.enabled")) ||
                        (from.has("fp16.enabled") && !says(from, "fp16.enabled")));
  const bool is_unsaid = !bf16 && !fp16 && !has_trainer(from) && is_settled_by_code(from);
  if (is_unsaid) to.ask("training.precision", "DeepSpeed trains, and its file is not given");
  const std::string autocast_type = from.word("torch_autocast.dtype").value_or("bfloat16");
  const std::string precision = fp8                          ? "fp8"
                                : bf16                       ? "bf16"
                                : fp16 || amp                ? "fp16"
                                : !autocast                  ? "fp32"
                                : autocast_type == "float16" ? "fp16"
                                                             : "bf16";
  if (is_open) to.ask("training.precision", "DeepSpeed's file leaves it to the program");
  if (!is_open && !is_unsaid) to.set("training.precision", precision);
  const std::string type = from.word("communication_data_type").value_or("");
  const std::string kept = from.word("data_types.grad_accum_dtype").value_or("");
  const auto known = [&](std::string word) {
    if (word == "fp32" || word == "fp16") return word;
    return std::string(word == "bfp16" || word == "bf16" ? "bf16" : "");
  };
  // Unless a setting gives another type, DeepSpeed keeps and sends gradients in the type of the
  // weights, and in fp32 under autocast.
  std::string reduce = known(type).empty() ? known(kept) : known(type);
  if (reduce.empty()) reduce = autocast ? "fp32" : fp8 ? "bf16" : precision;
  if (fp8) to.set("training.fp8_recipe", backend == "te" ? "delayed" : "tensorwise");
  if (!is_open && !is_unsaid) to.set("training.gradient_reduce_precision", reduce);
  to.set("training.fuse_gradient_accumulation", false);
  to.set("training.cuda_graph", false);
}

Rule precision_rule() {
  return {{"training.precision", "training.fp8_recipe", "training.gradient_reduce_precision",
           "training.fuse_gradient_accumulation", "training.cuda_graph"},
          {"bf16.enabled", "bfloat16.enabled", "fp16.enabled", "bf16", "fp16",
           "torch_autocast.enabled", "torch_autocast.dtype", "amp.enabled", "mixed_precision",
           "fp8_config.fp8_backend", "communication_data_type", "data_types.grad_accum_dtype"},
          read_precision,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            to.add("bf16.enabled", t.precision == Precision::bf16);
            to.add("fp16.enabled", t.precision == Precision::fp16);
            to.add("bf16", t.precision == Precision::bf16);
            to.add("fp16", t.precision == Precision::fp16);
            const json type = from["training.gradient_reduce_precision"];
            to.add("communication_data_type", type);
            to.add("data_types.grad_accum_dtype", type);
          },
          "gradients are kept and sent in the type of the weights unless the settings say another"};
}

Rule states_rule() {
  return {{"training.master_weights", "training.moments_precision"},
          {"bf16.bf16_master_weights_and_grads", "bf16.bf16_optimizer_states"},
          [](Settings& from, JobDraft& to) {
            const bool weights = flag(from, "bf16.bf16_master_weights_and_grads").value_or(false);
            const bool states = flag(from, "bf16.bf16_optimizer_states").value_or(false);
            if (weights) to.set("training.master_weights", "none");
            if (states) to.set("training.moments_precision", "bf16");
          },
          [](const JobValues& from, Settings& to) {
            if (from.plan.training.precision != Precision::bf16) return;
            const bool pure = from.plan.training.master_weights == MasterWeights::none;
            to.add("bf16.bf16_master_weights_and_grads", pure);
            to.add("bf16.bf16_optimizer_states", pure);
          }};
}

void read_loss_scale(Settings& from, JobDraft& to) {
  const double fixed = number(from, "fp16.loss_scale").value_or(0);
  const double power = number(from, "fp16.initial_scale_power").value_or(16);
  json moving = {{"initial", std::exp2(power)},
                 {"factor", 2},
                 {"window", whole(from, "fp16.loss_scale_window").value_or(1000)},
                 {"hysteresis", whole(from, "fp16.hysteresis").value_or(2)},
                 {"minimum", number(from, "fp16.min_loss_scale").value_or(1)}};
  if (to.value("training.precision") != "fp16") return;
  to.set("training.loss_scale", fixed > 0 ? json{{"static", fixed}} : std::move(moving));
}

Rule loss_scale_rule() {
  return {{"training.loss_scale"},
          {"fp16.loss_scale", "fp16.initial_scale_power", "fp16.loss_scale_window",
           "fp16.hysteresis", "fp16.min_loss_scale"},
          read_loss_scale,
          [](const JobValues& from, Settings& to) {
            if (!from.plan.training.scales_loss()) return;
            const LossScale scale = from.plan.training.settled_loss_scale();
            to.add("fp16.loss_scale", scale.dynamic ? 0.0 : scale.initial);
            if (!scale.dynamic) return;
            to.add("fp16.initial_scale_power", std::lround(std::log2(scale.initial)));
            to.add("fp16.loss_scale_window", scale.window);
            to.add("fp16.hysteresis", scale.hysteresis);
            to.add("fp16.min_loss_scale", std::lround(scale.minimum));
          },
          "loss_scale 0 is a moving scale that begins at 2^initial_scale_power"};
}

void read_degrees(Settings& from, JobDraft& to) {
  const std::int64_t tensor = whole(from, "tensor_parallel.autotp_size").value_or(1);
  to.set("parallelism.tensor", std::max<std::int64_t>(1, tensor));
  const std::int64_t sequence = whole(from, "sequence_parallel_size").value_or(1);
  if (sequence > 1) {
    to.set("parallelism.context", sequence);
    to.set("parallelism.context_exchange", "all_to_all");
  }
  if (flag(from, "expert_parallel.enabled").value_or(false))
    to.set("parallelism.expert", whole(from, "expert_parallel.autoep_size").value_or(1));
  to.set("parallelism.placement", "PDT");
  to.set("parallelism.sequence_parallel", false);
  to.set("parallelism.partition", "even");
}

Rule degrees_rule() {
  return {{"parallelism.tensor", "parallelism.context", "parallelism.context_exchange",
           "parallelism.expert", "parallelism.placement", "parallelism.sequence_parallel"},
          {"tensor_parallel.autotp_size", "sequence_parallel_size", "expert_parallel.enabled",
           "expert_parallel.autoep_size"},
          read_degrees,
          [](const JobValues& from, Settings& to) {
            if (from.plan.parallelism.tensor > 1)
              to.add("tensor_parallel.autotp_size", from.plan.parallelism.tensor);
            if (from.plan.parallelism.context > 1)
              to.add("sequence_parallel_size", from.plan.parallelism.context);
          },
          "stages are in a model's own code"};
}

// Returns the bytes of one element in the type in which gradients are sent.
std::int64_t bytes_of_gradient(const JobDraft& to) {
  return to.word("training.gradient_reduce_precision", "fp32") == "fp32" ? 4 : 2;
}

// Returns the hidden size of the job's model, or 0 if it is not known. Transformers derives sizes
// of buffers from it. If the model is a name or a path, its file is read.
std::int64_t hidden_of(const JobDraft& to) {
  for (const char* key : {"model.hidden_size", "model.n_embd"})
    if (const json found = to.value(key); found.is_number_integer()) return to.count(key);
  const json model = to.value("model");
  if (!model.is_string()) return 0;
  try {
    return load_model(model.get<std::string>(), ".").hidden;
  } catch (const InputError&) {  // the reader of jobs reports it
    return 0;
  }
}

bool is_auto(const Settings& from, std::string_view name) {
  return std::ranges::any_of(from.all(), [&](const Setting& each) {
    return same_name(each.name, name) && each.value == "auto";
  });
}

void read_zero(Settings& from, JobDraft& to) {
  const auto said = whole(from, "zero_optimization.stage");
  const bool is_asked = !said && is_settled_by_code(from);
  if (is_asked) to.ask("parallelism.zero_stage", "DeepSpeed trains, and its file is not given");
  const std::int64_t stage = said.value_or(amount_of(to.number("parallelism.zero_stage", 0)));
  if (stage < 0 || stage > 3)
    from.fail("zero_optimization.stage", std::to_string(stage) + " is no stage; use 0 to 3");
  auto bucket = whole(from, "zero_optimization.reduce_bucket_size");
  const auto overlap = flag(from, "zero_optimization.overlap_comm");
  const auto live = whole(from, "zero_optimization.stage3_max_live_parameters");
  auto threshold = whole(from, "zero_optimization.stage3_param_persistence_threshold");
  // The Trainer replaces "auto" of these two settings by functions of the hidden size
  // (transformers, integrations/deepspeed.py).
  const std::int64_t hidden = hidden_of(to);
  if (hidden > 0 && is_auto(from, "zero_optimization.reduce_bucket_size"))
    bucket = product({hidden, hidden});
  if (hidden > 0 && is_auto(from, "zero_optimization.stage3_param_persistence_threshold"))
    threshold = 10 * hidden;
  const auto part = whole(from, "zero_optimization.mics_shard_size");
  if (!is_asked) to.set("parallelism.zero_stage", stage);
  to.set("parallelism.reduce_gradients", stage >= 2 ? "each" : "last");
  to.set(
      "parallelism.reduce_bucket_bytes",
      product({stage == 0 ? deepspeed_bucket_elements : bucket.value_or(deepspeed_bucket_elements),
               bytes_of_gradient(to)}));
  json overlapped = json::array();
  const bool is_alone = replicas_of_draft(to) == 1 && to.count("parallelism.context") == 1;
  if (is_alone || (stage > 0 && overlap.value_or(stage == 3))) overlapped.push_back("gradients");
  if (is_alone || stage == 3) overlapped.push_back("parameters");
  if (flag(from, "tensor_parallel.tp_overlap_comm").value_or(false) &&
      to.count("parallelism.tensor") > 1)
    overlapped.push_back("tensor");
  to.set("parallelism.overlap", std::move(overlapped));
  if (stage != 3) return;
  if (part && *part > 1) to.set("parallelism.shard", *part);
  to.set("parallelism.max_live_parameters", live.value_or(deepspeed_live_parameters));
  to.set("parallelism.persistence_threshold", threshold.value_or(deepspeed_persistence_threshold));
}

void write_zero(const JobValues& from, Settings& to) {
  const Parallelism& p = from.plan.parallelism;
  to.add("zero_optimization.stage", p.zero_stage);
  if (p.tensor > 1) to.add("tensor_parallel.tp_overlap_comm", p.overlap_tensor);
  if (p.zero_stage == 0) return;
  const std::int64_t elements =
      p.reduce_bucket_bytes / bytes_of(from.plan.training.gradient_reduce);
  to.add("zero_optimization.reduce_bucket_size", elements);
  to.add("zero_optimization.allgather_bucket_size", elements);
  to.add("zero_optimization.overlap_comm", p.overlap_gradients);
  to.add("zero_optimization.contiguous_gradients", true);
  if (p.zero_stage != 3) return;
  if (p.shard > 1) to.add("zero_optimization.mics_shard_size", p.shard);
  to.add("zero_optimization.stage3_max_live_parameters", p.max_live_parameters);
  to.add("zero_optimization.stage3_max_reuse_distance", p.max_live_parameters);
  to.add("zero_optimization.stage3_prefetch_bucket_size", elements);
  to.add("zero_optimization.stage3_param_persistence_threshold", p.persistence_threshold);
}

Rule zero_rule() {
  return {{"parallelism.zero_stage", "parallelism.shard", "parallelism.reduce_gradients",
           "parallelism.reduce_bucket_bytes", "parallelism.overlap",
           "parallelism.max_live_parameters", "parallelism.persistence_threshold"},
          {"zero_optimization.stage", "zero_optimization.reduce_bucket_size",
           "zero_optimization.overlap_comm", "zero_optimization.stage3_max_live_parameters",
           "zero_optimization.stage3_param_persistence_threshold",
           "zero_optimization.mics_shard_size", "tensor_parallel.tp_overlap_comm"},
          read_zero,
          write_zero,
          "buckets are elements of the type that gradients are sent in"};
}

// DeepSpeed's batches say how many processes there are where nothing else does: the batch of a step
// is micro-batch x accumulation x replicas. Without accumulation, which DeepSpeed then computes,
// one host has as many processes as divide it.
void read_ranks(Settings& from, JobDraft& to) {
  const auto all = count(from, "train_batch_size"),
             rounds = count(from, "gradient_accumulation_steps"),
             micro = count(from, "train_micro_batch_size_per_gpu");
  const std::int64_t each = to.ranks().value_or(0);
  if (!all || !micro || each == 0 || to.has("cluster.count") ||
      to.has("cluster.processes_per_host"))
    return;
  const std::int64_t cut =
      product({to.count("parallelism.tensor"), to.count("parallelism.context")});
  const std::int64_t pieces = *all / product({*micro, rounds.value_or(1)});
  if (pieces < 1 || *all % product({*micro, rounds.value_or(1)}) != 0) return;
  std::int64_t ranks = product({pieces, cut});
  if (!rounds) {
    ranks = each;
    while (ranks > 1 && (ranks % cut != 0 || pieces % (ranks / cut) != 0)) --ranks;
  }
  if (ranks == each || (ranks > each && ranks % each != 0)) return;
  to.set(ranks > each ? "cluster.count" : "cluster.processes_per_host",
         ranks > each ? ranks / each : ranks);
  to.remark("train_batch_size " + std::to_string(*all) + ", " +
            (rounds ? "gradient_accumulation_steps " + std::to_string(*rounds) + " and " : "") +
            "train_micro_batch_size_per_gpu " + std::to_string(*micro) + ": " +
            std::to_string(ranks) + (ranks == 1 ? " process trains" : " processes train") +
            "; --set cluster.count and cluster.processes_per_host say otherwise");
}

Rule ranks_rule() {
  return {{"cluster.count", "cluster.processes_per_host"},
          {"train_batch_size", "gradient_accumulation_steps", "train_micro_batch_size_per_gpu"},
          read_ranks,
          nullptr,
          "where no setting of a launcher says how many there are"};
}

void read_batch(Settings& from, JobDraft& to) {
  const std::int64_t data = replicas_of_draft(to);
  const auto rounds = count(from, "gradient_accumulation_steps");
  const bool is_open = from.has("gradient_accumulation_steps") && !rounds;
  if (!is_open) read_trainer_batch(from, to, has_trainer(from) ? data : 0);
  const auto all = count(from, "train_batch_size");
  const auto micro = count(from, "train_micro_batch_size_per_gpu");
  if (micro) to.set("training.micro_batch", *micro);
  if (all) to.set("training.global_batch", *all);
  if (is_auto(from, "train_micro_batch_size_per_gpu") && !all && !to.has("training.micro_batch"))
    to.ask("training.micro_batch", "train_micro_batch_size_per_gpu is left to the program");
  if (all && !micro && data > 0 && !to.has("training.micro_batch")) {
    const std::int64_t once = product({data, rounds.value_or(1)});
    if (*all % once != 0)
      from.fail("train_batch_size", std::to_string(*all) + " is no multiple of " +
                                        std::to_string(data) +
                                        " replicas x gradient_accumulation_steps " +
                                        std::to_string(rounds.value_or(1)));
    to.set("training.micro_batch", *all / once);
  }
  if (all && micro && rounds && *all % product({*micro, *rounds}) != 0)
    from.fail("train_batch_size", std::to_string(*all) + " is no multiple of micro-batches of " +
                                      std::to_string(*micro) + " x gradient_accumulation_steps " +
                                      std::to_string(*rounds));
  if (all && micro && rounds && data > 0 && *all != product({*micro, *rounds, data}))
    from.fail("train_batch_size",
              std::to_string(*all) + " is not train_micro_batch_size_per_gpu " +
                  std::to_string(*micro) + " x gradient_accumulation_steps " +
                  std::to_string(*rounds) + " x " + std::to_string(data) +
                  " replicas = " + std::to_string(product({*micro, *rounds, data})));
  if (!all && micro && data > 0 && (rounds || !from.has("gradient_accumulation_steps")))
    to.set("training.global_batch", product({*micro, rounds.value_or(1), data}));
}

Rule batch_rule() {
  return {{"training.global_batch", "training.micro_batch"},
          {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
           "per_device_train_batch_size"},
          read_batch,
          [](const JobValues& from, Settings& to) {
            to.add("train_batch_size", from["training.global_batch"]);
            to.add("train_micro_batch_size_per_gpu", from["training.micro_batch"]);
            write_trainer_batch(from, to);
          },
          "train_batch_size is micro-batch x accumulation x replicas"};
}

void read_optimizer(Settings& from, JobDraft& to) {
  read_trainer_optimizer(from, to);
  const auto type = from.word("optimizer.type");
  const bool decoupled = flag(from, "optimizer.params.adam_w_mode").value_or(true);
  if (type) {
    std::string name = *type;
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool is_adam = name == "adam" || name == "onebitadam" || name == "zerooneadam";
    const bool is_lamb = name == "lamb" || name == "onebitlamb";
    if (!is_adam && !is_lamb && name != "adamw" && name != "sgd")
      from.fail("optimizer.type", "'" + *type + "' is not built; AdamW, Adam, Lamb and SGD are");
    if (name.starts_with("onebit") || name.starts_with("zeroone"))
      to.remark("optimizer.type " + *type + ": gradients travel whole here");
    to.set("training.optimizer", is_lamb                        ? "lamb"
                                 : name == "sgd"                ? "sgd"
                                 : name == "adam" && !decoupled ? "adam"
                                                                : "adamw");
  }
  const auto take = [&](const char* key, const char* setting) {
    if (const auto value = number(from, setting)) to.set(key, *value);
  };
  take("training.learning_rate", "optimizer.params.lr");
  take("training.epsilon", "optimizer.params.eps");
  take("training.weight_decay", "optimizer.params.weight_decay");
  take("training.momentum", "optimizer.params.momentum");
  if (says(from, "optimizer.params.betas")) {
    const json betas = from.read("optimizer.params.betas")->value;
    const bool is_pair =
        betas.is_array() && betas.size() == 2 && std::ranges::all_of(betas, [](const json& each) {
          return each.is_number() || each == "auto";
        });
    if (!is_pair) from.fail("optimizer.params.betas", betas.dump() + " is no list of two numbers");
    if (betas[0].is_number()) to.set("training.beta1", betas[0]);
    if (betas[1].is_number()) to.set("training.beta2", betas[1]);
  }
  const auto clip = number(from, "gradient_clipping");
  if (clip || !has_trainer(from))
    to.set("training.gradient_clip",
           clip.value_or(from.has("gradient_clipping") && !to.has("training.gradient_clip")
                             ? 1.0
                             : to.number("training.gradient_clip", 1.0)));
}

Rule optimizer_rule() {
  return {
      {"training.optimizer", "training.learning_rate", "training.beta1", "training.beta2",
       "training.epsilon", "training.weight_decay", "training.momentum", "training.gradient_clip"},
      {"optimizer.type", "optimizer.params.adam_w_mode", "optimizer.params.lr",
       "optimizer.params.betas", "optimizer.params.eps", "optimizer.params.weight_decay",
       "optimizer.params.momentum", "gradient_clipping", "optim", "learning_rate", "weight_decay",
       "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm"},
      read_optimizer,
      [](const JobValues& from, Settings& to) {
        write_trainer_optimizer(from, to);
        const Training& t = from.plan.training;
        to.add("optimizer.type", t.optimizer == OptimizerKind::adamw  ? "AdamW"
                                 : t.optimizer == OptimizerKind::lamb ? "Lamb"
                                                                      : "Adam");
        to.add("optimizer.params.lr", t.learning_rate);
        to.add("optimizer.params.betas", json::array({t.beta1, t.beta2}));
        to.add("optimizer.params.eps", t.epsilon);
        to.add("optimizer.params.weight_decay", t.weight_decay);
        if (t.optimizer == OptimizerKind::adam) to.add("optimizer.params.adam_w_mode", false);
        to.add("gradient_clipping", t.gradient_clip);
      },
      "Adam decouples weight decay (adamw) unless adam_w_mode is false"};
}

void read_scheduler(Settings& from, JobDraft& to) {
  const auto type = from.word("scheduler.type");
  const auto warmup = whole(from, "scheduler.params.warmup_num_steps");
  const auto steps = whole(from, "scheduler.params.total_num_steps");
  const auto highest = number(from, "scheduler.params.warmup_max_lr");
  if (!type) return;
  if (*type == "WarmupLR")
    to.set("training.learning_rate_schedule", "constant");
  else if (*type == "WarmupDecayLR")
    to.set("training.learning_rate_schedule", "linear");
  else if (*type == "WarmupCosineLR")
    to.set("training.learning_rate_schedule", "cosine");
  else
    to.remark("scheduler.type " + *type + ": no such schedule is built; it changes no step's time");
  if (warmup) to.set("training.warmup_steps", *warmup);
  if (steps && !to.has("training.steps")) to.set("training.steps", *steps);
  if (highest && *highest > 0) to.set("training.learning_rate", *highest);
}

Rule scheduler_rule() {
  return {{"training.learning_rate_schedule", "training.warmup_steps", "training.steps",
           "training.learning_rate"},
          {"scheduler.type", "scheduler.params.warmup_num_steps",
           "scheduler.params.total_num_steps", "scheduler.params.warmup_max_lr"},
          read_scheduler,
          nullptr,
          "exports leave the schedule to the Trainer"};
}

Rule recompute_rule() {
  return {{"training.recompute", "training.compiler"},
          {"gradient_checkpointing", "torch_compile", "compile.deepcompile"},
          [](Settings& from, JobDraft& to) {
            const bool again = from.flag("gradient_checkpointing").value_or(false);
            const bool compiled = from.flag("torch_compile").value_or(false);
            const bool deep = flag(from, "compile.deepcompile").value_or(false);
            to.set("training.recompute", again ? "full" : "none");
            to.set("training.compiler", compiled || deep ? "full" : "none");
          },
          [](const JobValues& from, Settings& to) {
            to.add("gradient_checkpointing", from.plan.training.recompute == Recompute::full);
            to.add("torch_compile", from.plan.training.compiler != CompilerLevel::none);
          },
          "recomputation is in a model's code: transformers' gradient_checkpointing"};
}

}  // namespace

const Rules& deepspeed_rules() {
  static const Rules rules = {
      cluster_sizes_rule(), trainer_model_rule(), trainer_sequence_rule(),  precision_rule(),
      states_rule(),        loss_scale_rule(),    degrees_rule(),           ranks_rule(),
      zero_rule(),          batch_rule(),         optimizer_rule(),         trainer_steps_rule(),
      scheduler_rule(),     recompute_rule(),     trainer_attention_rule(), trainer_adapter_rule(),
  };
  return rules;
}

}  // namespace meshwright::interop
