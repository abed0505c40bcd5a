// Translates the instances of a training job and the hyperparameters of its script, which are named
// as in the published examples of the model parallel library (amazon-sagemaker-examples,
// training/distributed_training/pytorch/model_parallel and model_parallel_v2).
#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/sagemaker/sagemaker.h"

namespace meshwright::interop {

namespace {

constexpr const char* before = "hyperparameters.";

std::string hyper(const std::string& name) { return before + name; }

bool is_of_aws(const std::string& machine) { return machine.find('.') != std::string::npos; }

Rule instances_rule() {
  return {{"cluster.machine", "cluster.count"},
          {"instance_type", "instance_count", "compute.instance_type", "compute.instance_count"},
          [](Settings& from, JobDraft& to) {
            for (const char* name : {"compute.instance_type", "instance_type"})
              if (const auto type = from.word(name)) {
                if (type->starts_with("local")) continue;
                to.set("cluster.machine", type->starts_with("ml.") ? type->substr(3) : *type);
              }
            for (const char* name : {"compute.instance_count", "instance_count"})
              if (const auto count = from.count(name)) to.set("cluster.count", *count);
          },
          [](const JobValues& from, Settings& to) {
            to.add("instance_type", is_of_aws(from.machine) ? "ml." + from.machine : from.machine);
            to.add("instance_count", from.hosts);
          }};
}

// Returns the number of replicas that read different batches, or nothing if the number of ranks is
// not known.
std::optional<std::int64_t> readers_of(const JobDraft& job) {
  const std::optional<int> ranks = job.ranks();
  if (!ranks) return {};
  const std::int64_t tensor = library_degree(job, "tensor_parallel_degree");
  const std::int64_t stages =
      std::max(library_degree(job, "pipeline_parallel_degree"), library_degree(job, "partitions"));
  const std::int64_t context = library_degree(job, "context_parallel_degree");
  const bool shares =
      !is_version_1(job) ||
      job.value("distribution.smdistributed.modelparallel.parameters.prescaled_batch") == true;
  return std::max<std::int64_t>(1, *ranks / product({stages, context, shares ? tensor : 1}));
}

void read_batch(Settings& from, JobDraft& to) {
  std::string name;
  for (const char* each : {"per_device_train_batch_size", "train_batch_size"})
    if (from.has(hyper(each))) name = hyper(each);
  const std::int64_t parts = from.count(hyper("gradient_accumulation_steps")).value_or(1);
  from.whole(hyper("per_device_train_batch_size"));
  if (name.empty()) return;
  const std::int64_t batch = from.count(name).value_or(1);
  if (to.has("training.global_batch")) return;  // --set gives it
  const std::optional<std::int64_t> readers = readers_of(to);
  if (!readers)
    from.fail(name,
              "counts sequences of a replica; give instance_type, or --set "
              "cluster.machine=NAME, so that the replicas are known");
  to.set("training.global_batch", product({batch, parts, *readers}));
  if (!is_version_1(to)) to.set("training.micro_batch", batch);
}

Rule batch_rule() {
  return {{"training.global_batch", "training.micro_batch"},
          {hyper("train_batch_size"), hyper("per_device_train_batch_size"),
           hyper("gradient_accumulation_steps")},
          read_batch,
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            to.add(hyper("train_batch_size"),
                   from.plan.training.global_batch / p.data / (p.tensor_batch_own ? p.tensor : 1));
          },
          "sequences of one replica in a step"};
}

Rule length_rule() {
  return {{"training.sequence_length"},
          {hyper("max_context_width"), hyper("max_seq_length"), hyper("block_size"),
           hyper("max_sequence_length")},
          [](Settings& from, JobDraft& to) {
            for (const char* name :
                 {"max_sequence_length", "block_size", "max_seq_length", "max_context_width"})
              if (const auto length = from.whole(hyper(name)))
                to.set("training.sequence_length", *length);
          },
          [](const JobValues& from, Settings& to) {
            to.add(hyper("max_context_width"), from["training.sequence_length"]);
          }};
}

// Returns the rule for the precision. An import sets nothing for version 1 of the library, whose
// own parameters (fp16, bf16) decide.
Rule precision_rule() {
  return {{"training.precision", "training.fp8_recipe", "training.gradient_reduce_precision"},
          {hyper("bf16"), hyper("fp16"), hyper("fp8")},
          [](Settings& from, JobDraft& to) {
            const auto bf16 = from.flag(hyper("bf16"));
            const auto fp16 = from.flag(hyper("fp16"));
            const bool fp8 = from.flag(hyper("fp8")).value_or(false);
            if (bf16 == true && fp16 == true)
              from.fail(hyper("fp16"), "given beside bf16; keep one of them");
            const bool is_trainers = from.has(hyper("per_device_train_batch_size"));
            if (is_version_1(to) || !(bf16 || fp16 || fp8 || is_trainers)) return;
            if (!bf16 && !fp16 && !fp8)
              to.remark("no hyperparameter says the precision: fp32, the Trainer's default");
            const std::string word = fp8            ? "fp8"
                                     : bf16 == true ? "bf16"
                                     : fp16 == true ? "fp16"
                                                    : "fp32";
            to.set("training.precision", word);
            if (fp8) to.set("training.fp8_recipe", "delayed");
            to.set("training.gradient_reduce_precision", fp8 ? "bf16" : word);
          },
          [](const JobValues& from, Settings& to) {
            const Precision precision = from.plan.training.precision;
            if (from.plan.parallelism.pipeline > 1) {
              to.add(hyper("fp16"), precision == Precision::fp16 ? 1 : 0);
              return;
            }
            to.add(hyper("bf16"), precision == Precision::fp32 ? 0 : 1);
            to.add(hyper("fp8"), precision == Precision::fp8 ? 1 : 0);
          }};
}

Rule recompute_rule() {
  return {{"training.recompute"},
          {hyper("activation_checkpointing"), hyper("activation_strategy"),
           hyper("gradient_checkpointing")},
          [](Settings& from, JobDraft& to) {
            const auto asked = from.flag(hyper("activation_checkpointing"));
            const auto trainer = from.flag(hyper("gradient_checkpointing"));
            const std::string strategy = from.word(hyper("activation_strategy")).value_or("each");
            if (!asked && !trainer) return;
            to.set("training.recompute", !asked.value_or(trainer.value_or(false)) ? "none"
                                         : strategy == "each"                     ? "full"
                                                                                  : strategy);
          },
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            to.add(hyper("activation_checkpointing"), t.recompute == Recompute::none ? 0 : 1);
            if (t.recompute == Recompute::none || from.plan.parallelism.pipeline == 1) return;
            to.add(hyper("activation_strategy"),
                   t.recompute == Recompute::full ? "each" : recompute_word(t));
          }};
}

Rule attention_rule() {
  return {
      {"training.attention"},
      {hyper("nvte_attn_backend"), hyper("use_flash_attn")},
      [](Settings& from, JobDraft& to) {
        const auto backend = from.word(hyper("nvte_attn_backend"), {"fused", "flash", "unfused"});
        const auto flash = from.flag(hyper("use_flash_attn"));
        if (backend)
          to.set("training.attention", backend == "fused"   ? "cudnn"
                                       : backend == "flash" ? "flash2"
                                                            : "unfused");
        else if (flash)
          to.set("training.attention", *flash ? "flash2" : "unfused");
      },
      [](const JobValues& from, Settings& to) {
        const AttentionKernel kernel = from.plan.training.attention;
        if (from.plan.parallelism.pipeline > 1)
          to.add(hyper("use_flash_attn"), kernel == AttentionKernel::unfused ? 0 : 1);
        else
          to.add(hyper("nvte_attn_backend"), kernel == AttentionKernel::cudnn     ? "fused"
                                             : kernel == AttentionKernel::unfused ? "unfused"
                                                                                  : "flash");
      },
      "an example's choices are fused and flash"};
}

// Returns the rule for the warm-up, which the examples give as a share of all steps and
// transformers as a number of steps.
Rule warmup_rule() {
  return {{"training.warmup_steps"},
          {hyper("warmup"), hyper("warmup_steps")},
          [](Settings& from, JobDraft& to) {
            const auto share = from.number(hyper("warmup"));
            if (const auto steps = from.whole(hyper("warmup_steps")))
              to.set("training.warmup_steps", *steps);
            else if (share && to.has("training.steps"))
              to.set("training.warmup_steps",
                     amount_of(std::round(*share * to.number("training.steps", 0))));
          },
          [](const JobValues& from, Settings& to) {
            to.add(hyper("warmup"), static_cast<double>(from.plan.training.warmup_steps) /
                                        std::max(1, from.plan.training.steps));
          },
          "a share of max_steps"};
}

Rule script_rule() {
  return {{"training.optimizer", "training.cuda_graph", "training.fuse_gradient_accumulation"},
          {},
          [](Settings&, JobDraft& to) {
            to.set("training.optimizer", "adamw");
            to.set("training.cuda_graph", false);
            to.set("training.fuse_gradient_accumulation", false);
          },
          nullptr,
          "what PyTorch's scripts do"};
}

Rule sharding_words_rule() {
  return {{"distribution"},
          {hyper("sharding_strategy")},
          [](Settings& from, JobDraft& to) {
            const auto word = from.word(
                hyper("sharding_strategy"),
                {"no_shard", "shard_grad_op", "hybrid_shard", "_hybrid_shard_zero2", "full_shard"});
            if (word == "shard_grad_op" || word == "_hybrid_shard_zero2")
              to.remark("sharding_strategy " + *word +
                        " keeps gathered parameters until the backward; they are dropped here");
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.pipeline > 1) return;
            to.add(hyper("sharding_strategy"), p.zero_stage == 0 ? "no_shard"
                                               : p.shard == 1    ? "full_shard"
                                                                 : "hybrid_shard");
          },
          "hybrid_shard_degree decides"};
}

}  // namespace

const Rules& sagemaker_rules() {
  static const Rules rules = {
      instances_rule(),
      distribution_rule(),
      script_model_rule(),
      batch_rule(),
      length_rule(),
      precision_rule(),
      compiler_rule(),
      fsdp_words_rule(),
      recompute_rule(),
      attention_rule(),
      script_rule(),
      sharding_words_rule(),
      whole_rule("training.steps", hyper("max_steps")),
      number_rule("training.learning_rate", hyper("lr")),
      words_rule("training.learning_rate_schedule", hyper("lr_decay_style"),
                 {{"constant", "constant"}, {"linear", "linear"}, {"cosine", "cosine"}}, "cosine"),
      warmup_rule(),
      number_rule("training.weight_decay", hyper("weight_decay")),
      number_rule("training.beta1", hyper("beta1")),
      number_rule("training.beta2", hyper("beta2")),
      number_rule("training.gradient_clip", hyper("grad_clip")),
      whole_rule("training.seed", hyper("seed")),
  };
  return rules;
}

}  // namespace meshwright::interop
