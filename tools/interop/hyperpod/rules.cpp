// Translates between HyperPod's recipes and the keys of the job file. Names and defaults:
// config_schemas.py of sagemaker-hyperpod-training-adapter-for-nemo (recipes with use_smp_model),
// and recipes of version 2 that start NeMo.
#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/hyperpod/hyperpod.h"

namespace meshwright::interop {

namespace {

// Reads the hosts, the ranks per host and the machine. If trainer.devices is "auto" or -1, the
// machine decides the ranks per host.
void read_cluster(Settings& from, JobDraft& to) {
  if (const auto hosts = from.count("trainer.num_nodes")) to.set("cluster.count", *hosts);
  if (const Setting* devices = from.read("trainer.devices");
      devices != nullptr && devices->value != "auto" && devices->value != -1)
    if (const auto count = from.count("trainer.devices"))
      to.set("cluster.processes_per_host", *count);
  std::vector<std::string> machines = from.words("instance_types");
  if (const auto one = from.word("instance_type")) machines = {*one};
  if (machines.empty() || to.has("cluster.machine")) return;
  const std::string& machine = machines.front();
  to.set("cluster.machine", machine.starts_with("ml.") ? machine.substr(3) : machine);
}

Rule cluster_rule() {
  return {{"cluster.count", "cluster.processes_per_host", "cluster.machine"},
          {"trainer.num_nodes", "trainer.devices", "instance_type", "instance_types"},
          read_cluster,
          [](const JobValues& from, Settings& to) {
            to.add("trainer.devices", from.gpus_per_host);
            to.add("trainer.num_nodes", from.hosts);
          }};
}

Rule precision_rule() {
  return {{"training.precision", "training.fp8_recipe", "training.gradient_reduce_precision"},
          {"trainer.precision", "model.precision", "model.fp8"},
          [](Settings& from, JobDraft& to) {
            if (is_other_program(from)) return;
            const std::string type = from.word("trainer.precision").value_or("bf16");
            from.word("model.precision");  // refers to trainer.precision
            const bool fp8 =
                from.flag("model.fp8").value_or(true) && from.flag("use_smp_model").value_or(true);
            const bool bf16 = type.starts_with("bf16");
            if (!bf16 && !type.starts_with("32") && !type.starts_with("16"))
              from.fail("trainer.precision",
                        "unknown precision '" + type + "'; known: bf16, 16 and 32");
            to.set("training.precision", !bf16 ? (type.starts_with("32") ? "fp32" : "fp16")
                                         : fp8 ? "fp8"
                                               : "bf16");
            if (bf16 && fp8) to.set("training.fp8_recipe", "delayed");
            to.set("training.gradient_reduce_precision", bf16                     ? "bf16"
                                                         : type.starts_with("32") ? "fp32"
                                                                                  : "fp16");
          },
          [](const JobValues& from, Settings& to) {
            const bool fp32 = from.plan.training.precision == Precision::fp32;
            to.add("trainer.precision", fp32 ? json(32) : json("bf16"));
            to.add("model.fp8", from.plan.training.precision == Precision::fp8);
            to.add("model.fp8_amax_history_len", 1024);
            to.add("model.fp8_amax_compute_algo", "max");
          },
          "fp8 is on where a recipe does not say"};
}

void read_degrees(Settings& from, JobDraft& to) {
  if (is_other_program(from)) return;
  const std::int64_t tensor = from.count("model.tensor_model_parallel_degree").value_or(1);
  const std::int64_t context = from.count("model.context_parallel_degree").value_or(1);
  const std::int64_t expert = from.count("model.expert_model_parallel_degree").value_or(1);
  to.set("parallelism.tensor", tensor);
  to.set("parallelism.context", context);
  to.set("parallelism.expert", expert);
  const std::string strategy =
      from.word("model.sharding_strategy",
                {"no_shard", "shard_grad_op", "hybrid_shard", "_hybrid_shard_zero2", "full_shard"})
          .value_or("hybrid_shard");
  const std::int64_t degree = from.whole("model.shard_degree").value_or(0);
  to.set("parallelism.zero_stage", strategy == "no_shard" ? 0 : 3);
  if (strategy == "shard_grad_op" || strategy == "_hybrid_shard_zero2")
    to.set("parallelism.reshard_after_forward", "never");
  if (degree < 2 || strategy == "no_shard") return;
  const std::optional<int> ranks = to.ranks();
  if (!ranks) return;
  if (*ranks % product({degree, tensor, expert}) != 0)
    from.fail("model.shard_degree", std::to_string(degree) + " x tensor " + std::to_string(tensor) +
                                        " x expert " + std::to_string(expert) +
                                        " does not divide the " + std::to_string(*ranks) +
                                        " ranks");
  // With full sharding, the shard degree does not include the expert degree.
  const bool is_full = strategy == "full_shard" || strategy == "shard_grad_op";
  if (product({degree, tensor, is_full ? expert : 1}) < *ranks) to.set("parallelism.shard", degree);
}

void write_degrees(const JobValues& from, Settings& to) {
  const Parallelism& p = from.plan.parallelism;
  to.add("model.tensor_model_parallel_degree", p.tensor);
  to.add("model.context_parallel_degree", p.context);
  to.add("model.expert_model_parallel_degree", p.expert);
  const bool is_all = p.shard == 1;
  to.add("model.sharding_strategy", p.zero_stage == 0 ? "no_shard"
                                    : is_all ? (p.keeps_gathered ? "shard_grad_op" : "full_shard")
                                    : p.keeps_gathered ? "_hybrid_shard_zero2"
                                                       : "hybrid_shard");
  to.add("model.shard_degree", p.zero_stage == 0 ? 1
                               : is_all          ? std::max(1, p.data * p.context / p.expert)
                                                 : p.shard);
}

Rule degrees_rule() {
  return {{"parallelism.tensor", "parallelism.context", "parallelism.expert",
           "parallelism.zero_stage", "parallelism.shard", "parallelism.reshard_after_forward"},
          {"model.tensor_model_parallel_degree", "model.context_parallel_degree",
           "model.expert_model_parallel_degree", "model.sharding_strategy", "model.shard_degree"},
          read_degrees,
          write_degrees,
          "hybrid_shard over all ranks is full_shard"};
}

Rule batch_rule() {
  return {{"training.global_batch", "training.micro_batch"},
          {"model.train_batch_size"},
          [](Settings& from, JobDraft& to) {
            if (is_other_program(from)) return;
            const std::int64_t batch = from.count("model.train_batch_size").value_or(2);
            to.set("training.micro_batch", batch);
            const std::optional<int> ranks = to.ranks();
            if (!ranks) {
              if (to.has("training.global_batch")) return;
              from.fail("model.train_batch_size",
                        "counts sequences of a replica; give --set cluster.machine=NAME, so that "
                        "the replicas are known");
            }
            const std::int64_t parts =
                to.count("parallelism.tensor") * to.count("parallelism.context");
            to.set("training.global_batch", product({batch, *ranks / parts}));
          },
          [](const JobValues& from, Settings& to) {
            to.add("model.train_batch_size", from.plan.training.micro_batch);
          },
          "sequences of one replica; x replicas = global_batch"};
}

Rule recompute_rule() {
  return {
      {"training.recompute", "parallelism.offload", "parallelism.offload_horizon"},
      {"model.activation_checkpointing", "model.offload_activations",
       "model.activation_loading_horizon"},
      [](Settings& from, JobDraft& to) {
        if (is_other_program(from)) return;
        const bool kept = !from.flag("model.activation_checkpointing").value_or(true);
        const bool moved = from.flag("model.offload_activations").value_or(false);
        const std::int64_t horizon = from.whole("model.activation_loading_horizon").value_or(2);
        to.set("training.recompute", kept ? "none" : "full");
        if (!moved) return;
        if (kept) {
          to.remark(
              "model.offload_activations moves checkpoints only; "
              "model.activation_checkpointing is off");
          return;
        }
        to.set("parallelism.offload", "layers");
        to.set("parallelism.offload_horizon", horizon);
      },
      [](const JobValues& from, Settings& to) {
        const Parallelism& p = from.plan.parallelism;
        to.add("model.activation_checkpointing", from.plan.training.recompute != Recompute::none);
        to.add("model.offload_activations", p.offload != Offload::none);
        to.add("model.activation_loading_horizon", p.offload == Offload::none ? 2 : p.horizon());
      }};
}

Rule attention_rule() {
  return {{"training.attention"},
          {"model.use_flash_attention", "model.nvte_attn_backend"},
          [](Settings& from, JobDraft& to) {
            if (is_other_program(from)) return;
            const bool flash = from.flag("model.use_flash_attention").value_or(true);
            const auto backend = from.word("model.nvte_attn_backend", {"fused", "flash"});
            if (!flash)
              to.set("training.attention", "unfused");
            else if (backend)
              to.set("training.attention", backend == "fused" ? "cudnn" : "flash2");
          },
          [](const JobValues& from, Settings& to) {
            const AttentionKernel kernel = from.plan.training.attention;
            to.add("model.use_flash_attention", kernel != AttentionKernel::unfused);
            if (kernel != AttentionKernel::unfused)
              to.add("model.nvte_attn_backend",
                     kernel == AttentionKernel::cudnn ? "fused" : "flash");
          }};
}

// Returns the rule restricted to recipes of the model parallel library: it reads nothing from other
// recipes.
Rule of_library(Rule rule) {
  rule.read = [read = rule.read](Settings& from, JobDraft& to) {
    if (!is_other_program(from)) read(from, to);
  };
  return rule;
}

Rule betas_rule() {
  return {
      {"training.beta1", "training.beta2"},
      {"model.optim.betas"},
      [](Settings& from, JobDraft& to) {
        if (is_other_program(from)) return;
        json betas = {0.9, 0.98};
        if (const Setting* given = from.read("model.optim.betas")) betas = given->value;
        if (!betas.is_array() || betas.size() != 2 || !betas[0].is_number() ||
            !betas[1].is_number())
          from.fail("model.optim.betas", betas.dump() + " is not a list of two numbers");
        to.set("training.beta1", betas[0]);
        to.set("training.beta2", betas[1]);
      },
      [](const JobValues& from, Settings& to) {
        to.add("model.optim.betas", json::array({from["training.beta1"], from["training.beta2"]}));
      }};
}

Rule steps_rule() {
  Rule rule = whole_rule("training.steps", "trainer.max_steps", 50);
  rule.read = [read = rule.read](Settings& from, JobDraft& to) {
    if (!is_fine_tuning_recipe(from)) read(from, to);
  };
  return rule;
}

// Returns the rule for keys that the training program fixes. It has one optimizer and one schedule
// of the learning rate.
Rule program_rule() {
  return {{"training.optimizer", "training.learning_rate_schedule", "training.cuda_graph",
           "training.fuse_gradient_accumulation"},
          {"use_smp_model", "model.optim.name", "model.optim.sched.name"},
          [](Settings& from, JobDraft& to) {
            from.flag("use_smp_model");
            from.flag("use_smp");
            if (is_other_program(from)) return;
            from.word("model.optim.name", {"adamw"});
            from.word("model.optim.sched.name", {"CosineAnnealing"});
            to.set("training.optimizer", "adamw");
            to.set("training.learning_rate_schedule", "cosine");
            to.set("training.cuda_graph", false);
            to.set("training.fuse_gradient_accumulation", false);
          },
          [](const JobValues&, Settings& to) {
            to.add("use_smp_model", true);
            to.add("distributed_backend", "nccl");
            to.add("model.optim.name", "adamw");
            to.add("model.optim.sched.name", "CosineAnnealing");
            to.add("model.do_finetune", false);  // else a model's name is needed
            to.add("model.fsdp", true);
            to.add("model.delayed_param", true);
            to.add("model.forward_prefetch", true);
            to.add("model.backward_fetch_policy", "backward_pre");
            to.add("model.auto_wrap_policy", "transformer_auto_wrap_policy");
          }};
}

}  // namespace

bool is_other_program(const Settings& settings) {
  return settings.has("strategy.tensor_model_parallel_size") || settings.has("optim.config.lr") ||
         settings.has("data.micro_batch_size") || settings.has("model.micro_batch_size") ||
         is_fine_tuning_recipe(settings);
}

const Rules& hyperpod_rules() {
  static const Rules rules = {
      cluster_rule(),
      recipe_model_rule(),
      of_library(whole_rule("training.sequence_length", "model.max_context_width", 2048)),
      precision_rule(),
      degrees_rule(),
      batch_rule(),
      recompute_rule(),
      attention_rule(),
      program_rule(),
      steps_rule(),
      of_library(whole_rule("training.seed", "model.seed", 12345)),
      of_library(number_rule("training.gradient_clip", "model.grad_clip", 1.0)),
      of_library(number_rule("training.learning_rate", "model.optim.lr", 2e-4)),
      of_library(number_rule("training.weight_decay", "model.optim.weight_decay", 0.01)),
      betas_rule(),
      of_library(whole_rule("training.warmup_steps", "model.optim.sched.warmup_steps", 500)),
      nemo_rule(),
      recipe_adapter_rule(),
      fine_tuning_rule(),
  };
  return rules;
}

}  // namespace meshwright::interop
