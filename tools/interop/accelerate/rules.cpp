// Translates between accelerate's settings file, together with the Trainer's arguments, and the
// keys of the job file.
#include <algorithm>

#include "models/compiler/frameworks/deepspeed.h"
#include "models/core/error.h"
#include "tools/interop/accelerate/accelerate.h"
#include "tools/interop/amounts.h"
#include "tools/interop/launch/cluster_rule.h"
#include "tools/interop/sagemaker/sagemaker.h"

namespace meshwright::interop {

namespace {

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Returns distributed_type in capitals ("FSDP", "DEEPSPEED", ...), or "MULTI_GPU" if it is not set.
std::string kind_of(Settings& from) {
  if (const auto word = from.word("distributed_type")) return in_capitals(*word);
  return "MULTI_GPU";
}

void read_cluster(Settings& from, JobDraft& to) {
  from.word("compute_environment", {"LOCAL_MACHINE"});
  const std::string kind = kind_of(from);
  const std::int64_t hosts = from.count("num_machines").value_or(1);
  std::optional<std::int64_t> processes = from.whole("num_processes");
  if (kind == "FALSE" || kind == "NO") processes = hosts;  // one on each host; YAML's no is false
  to.set("cluster.count", hosts);
  if (!processes || *processes < 1) return;
  if (*processes % hosts != 0)
    from.fail("num_processes", std::to_string(*processes) + " is no multiple of num_machines " +
                                   std::to_string(hosts));
  to.set("cluster.processes_per_host", *processes / hosts);
}

Rule cluster_rule() {
  return {{"cluster.count", "cluster.processes_per_host"},
          {"compute_environment", "distributed_type", "num_machines", "num_processes"},
          read_cluster,
          [](const JobValues& from, Settings& to) {
            to.add("compute_environment", "LOCAL_MACHINE");
            to.add("distributed_type", from.plan.parallelism.zero_stage == 3 ? "FSDP"
                                       : from.ranks() == 1                   ? "NO"
                                                                             : "MULTI_GPU");
            to.add("num_machines", from.hosts);
            to.add("num_processes", from.ranks());
            to.add("machine_rank", 0);
            to.add("main_training_function", "main");
            to.add("rdzv_backend", "static");
            to.add("use_cpu", false);
          },
          "num_processes counts all hosts'"};
}

// Returns whether weights, gradients and moments are all in bf16: if a file asks for it
// (pure_bf16), or if the model is loaded in bf16 and its weights stay so. They do not stay so under
// FSDP in mixed precision, in mixed precision with another type, with DeepSpeed or Megatron-LM,
// which keep master weights, and with adapters, which peft keeps in fp32.
bool trains_as_loaded(Settings& from, const std::string& mixed) {
  const std::string kind = kind_of(from);
  const std::string type = from.word("torch_dtype").value_or(from.word("dtype").value_or(""));
  const std::string adapter = from.word("adapter").value_or("");
  const bool has_adapters =
      from.flag("use_peft").value_or(false) || adapter == "lora" || adapter == "qlora";
  if (from.flag("pure_bf16").value_or(false)) return true;
  if (type != "bfloat16" && type != "bf16" && type != "torch.bfloat16") return false;
  if (kind == "DEEPSPEED" || kind == "MEGATRON_LM" || has_adapters) return false;
  return mixed == "no" || (mixed == "bf16" && kind != "FSDP");
}

void read_precision(Settings& from, JobDraft& to) {
  std::string word = from.word("mixed_precision").value_or("no");
  if (word == "false") word = "no";  // YAML reads no as false
  if (from.flag("bf16").value_or(false)) word = "bf16";
  if (from.flag("fp16").value_or(false)) word = "fp16";
  const bool tf32 = from.flag("tf32").value_or(false);
  if (word != "no" && word != "fp16" && word != "bf16" && word != "fp8")
    from.fail("mixed_precision", "unknown word '" + word + "'; known: no, fp16, bf16 and fp8");
  const bool as_loaded = trains_as_loaded(from, word);
  const bool is_said = from.has("mixed_precision") || from.has("bf16") || from.has("fp16") || tf32;
  if (!is_said && !as_loaded && from.has("program"))
    to.remark(
        "no setting says the precision: fp32, the default of accelerate and of the Trainer; trl's "
        "of today is bf16; --set training.precision=bf16 says it");
  const std::string precision = as_loaded ? "bf16" : word != "no" ? word : tf32 ? "tf32" : "fp32";
  const std::string kind = kind_of(from);
  if (as_loaded) {
    to.set("training.master_weights", "none");
    to.remark("weights are loaded in bf16: gradients and moments are in bf16 too");
  }
  to.set("training.precision", precision);
  if (word == "fp8") {
    const std::string backend =
        in_capitals(from.word("fp8_config.fp8_backend")
                        .value_or(from.word("fp8_config.backend").value_or("AO")));
    to.set("training.fp8_recipe", backend == "TE" ? "delayed" : "tensorwise");
    if (from.flag("fp8_config.enable_fsdp_float8_all_gather").value_or(false) && kind == "FSDP")
      to.set("training.fp8_gathers", true);
  }
  const bool is_sent_in_16_bits = word != "no" && (kind == "FSDP" || kind == "DEEPSPEED");
  to.set("training.gradient_reduce_precision", as_loaded             ? "bf16"
                                               : !is_sent_in_16_bits ? "fp32"
                                               : word == "fp16"      ? "fp16"
                                                                     : "bf16");
  if (word == "fp16" && kind != "DEEPSPEED")
    to.set("training.loss_scale", {{"initial", scale_of_grad_scaler.initial},
                                   {"factor", scale_of_grad_scaler.factor},
                                   {"window", scale_of_grad_scaler.window},
                                   {"minimum", scale_of_grad_scaler.minimum},
                                   {"hysteresis", scale_of_grad_scaler.hysteresis}});
  to.set("training.fuse_gradient_accumulation", false);
  to.set("training.cuda_graph", false);
}

Rule precision_rule() {
  return {
      {"training.precision", "training.fp8_recipe", "training.fp8_gathers",
       "training.gradient_reduce_precision", "training.loss_scale",
       "training.fuse_gradient_accumulation", "training.cuda_graph"},
      {"mixed_precision", "bf16", "fp16", "tf32", "torch_dtype", "dtype", "fp8_config.fp8_backend",
       "fp8_config.backend", "fp8_config.enable_fsdp_float8_all_gather"},
      read_precision,
      [](const JobValues& from, Settings& to) {
        const Precision precision = from.plan.training.precision;
        const bool as_loaded = from.plan.training.master_weights == MasterWeights::none;
        if (as_loaded) to.add("torch_dtype", "bfloat16");
        // Under FSDP in mixed precision, accelerate would convert the weights to fp32.
        const bool mixes = !as_loaded || from.plan.parallelism.zero_stage != 3;
        to.add("mixed_precision", !mixes                         ? "no"
                                  : precision == Precision::bf16 ? "bf16"
                                  : precision == Precision::fp16 ? "fp16"
                                                                 : "no");
        to.add("bf16", mixes && precision == Precision::bf16);
        to.add("fp16", precision == Precision::fp16);
        to.add("tf32", precision == Precision::tf32);
      },
      "FSDP and DeepSpeed send gradients in 16 bits, DDP in the type of the weights; a model that "
      "is loaded in bf16 (torch_dtype) is trained so, unless FSDP in mixed precision widens it"};
}

// Returns the name of a setting of fsdp_config to read: `without` the prefix fsdp_ if only that one
// is present, otherwise `with` it.
const char* fsdp(const Settings& from, const char* with, const char* without) {
  return from.has(with) || !from.has(without) ? with : without;
}

struct ParallelSizes {
  std::int64_t replicate = 1, shard = 0, tensor = 1, context = 1;
};

// Throws InputError if a file gives a shard degree of 2 or more and its degrees need another number
// of ranks than there are. accelerate's ParallelismConfig rejects such degrees too.
void check_ranks(const Settings& from, const ParallelSizes& sizes, const JobDraft& to) {
  const std::int64_t needed = product(
      {std::max<std::int64_t>(1, sizes.shard), sizes.replicate, sizes.tensor, sizes.context});
  const std::int64_t ranks = to.ranks().value_or(0), hosts = to.count("cluster.count");
  if (sizes.shard < 2 || ranks == 0 || needed == ranks) return;
  const std::int64_t each = ranks / hosts;
  constexpr const char *prefixed = "parallelism_config.parallelism_config_dp_shard_size",
                       *plain = "parallelism_config.dp_shard_size";
  from.fail(
      from.has(prefixed) ? prefixed : plain,
      std::to_string(sizes.shard) + " x the other degrees are " + std::to_string(needed) +
          " ranks, but there are " + std::to_string(ranks) + "; give --set " +
          (needed % each == 0 ? "cluster.count=" + std::to_string(needed / each)
                              : "cluster.processes_per_host=" + std::to_string(needed / hosts)));
}

ParallelSizes read_degrees(Settings& from, JobDraft& to) {
  const auto degree = [&](const char* name, const char* plain) {
    return from.count(from.has(name) ? name : plain);
  };
  ParallelSizes all;
  all.replicate = degree("parallelism_config.parallelism_config_dp_replicate_size",
                         "parallelism_config.dp_replicate_size")
                      .value_or(1);
  all.shard = degree("parallelism_config.parallelism_config_dp_shard_size",
                     "parallelism_config.dp_shard_size")
                  .value_or(0);
  all.tensor = degree("parallelism_config.parallelism_config_tp_size", "parallelism_config.tp_size")
                   .value_or(1);
  all.context =
      degree("parallelism_config.parallelism_config_cp_size", "parallelism_config.cp_size")
          .value_or(1);
  const std::int64_t heads =
      degree("parallelism_config.parallelism_config_sp_size", "parallelism_config.sp_size")
          .value_or(1);
  const auto way = from.word("parallelism_config.parallelism_config_cp_comm_strategy",
                             {"allgather", "alltoall"});
  if (heads > 1) all.context = heads;
  check_ranks(from, all, to);
  to.set("parallelism.tensor", all.tensor);
  to.set("parallelism.context", all.context);
  if (all.context > 1)
    to.set("parallelism.context_exchange", heads > 1           ? "all_to_all"
                                           : way == "alltoall" ? "p2p"
                                                               : "all_gather");
  return all;
}

// Returns the name of FSDP 1's sharding strategy, which is given as a number of
// torch.distributed.fsdp.ShardingStrategy or as a name in any case.
std::string strategy_of(const std::string& word) {
  static const std::pair<const char*, const char*> numbers[] = {{"1", "FULL_SHARD"},
                                                                {"2", "SHARD_GRAD_OP"},
                                                                {"3", "NO_SHARD"},
                                                                {"4", "HYBRID_SHARD"},
                                                                {"5", "HYBRID_SHARD_ZERO2"}};
  for (const auto& [number, name] : numbers)
    if (word == number) return name;
  return in_capitals(word);
}

void read_fsdp(Settings& from, JobDraft& to, const ParallelSizes& degrees) {
  const std::int64_t version =
      from.whole(fsdp(from, "fsdp_config.fsdp_version", "fsdp_config.version")).value_or(1);
  const char* const reshard =
      fsdp(from, "fsdp_config.fsdp_reshard_after_forward", "fsdp_config.reshard_after_forward");
  const char* const strategy =
      fsdp(from, "fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy");
  const auto given = from.word(strategy);
  std::string word = given ? strategy_of(*given) : "FULL_SHARD";
  if (const auto policy = from.word(reshard); policy && (version > 1 || !given)) {
    if (*policy == "true" || *policy == "false")
      word = *policy == "true" ? "FULL_SHARD" : "SHARD_GRAD_OP";
    else
      word = strategy_of(*policy);
  }
  if (word != "FULL_SHARD" && word != "SHARD_GRAD_OP" && word != "NO_SHARD" &&
      word != "HYBRID_SHARD" && word != "HYBRID_SHARD_ZERO2")
    from.fail(given ? strategy : reshard,
              "unknown word '" + word +
                  "'; known: FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD and "
                  "HYBRID_SHARD_ZERO2");
  const bool sharded = word != "NO_SHARD";
  to.set("parallelism.zero_stage", sharded ? 3 : 0);
  if (!sharded) return;
  to.set("parallelism.reshard_after_forward",
         word == "SHARD_GRAD_OP" || word == "HYBRID_SHARD_ZERO2" ? "never" : "always");
  if (degrees.replicate > 1 && degrees.shard > 0)
    to.set("parallelism.shard", product({degrees.shard, degrees.context}));
  const std::int64_t hosts = to.count("cluster.count");
  if (!word.starts_with("HYBRID") || hosts == 1) return;
  if (const auto ranks = to.ranks())  // shards in each host
    to.set("parallelism.shard", *ranks / hosts);
}

void read_deepspeed_plugin(Settings& from, JobDraft& to) {
  const std::int64_t stage = from.whole("deepspeed_config.zero_stage").value_or(2);
  const std::string file = from.word("deepspeed_config.deepspeed_config_file").value_or("");
  if (!file.empty() && file != "none")
    to.remark("deepspeed_config_file: " + file +
              " has the settings; import it with --format deepspeed");
  if (stage < 0 || stage > 3)
    from.fail("deepspeed_config.zero_stage", std::to_string(stage) + " is no stage; use 0 to 3");
  if (const auto clip = from.number("deepspeed_config.gradient_clipping"))
    to.set("training.gradient_clip", *clip);
  const std::int64_t bytes =
      to.word("training.gradient_reduce_precision", "fp32") == "fp32" ? 4 : 2;
  to.set("parallelism.zero_stage", stage);
  to.set("parallelism.reduce_gradients", stage >= 2 ? "each" : "last");
  to.set("parallelism.reduce_bucket_bytes", deepspeed_bucket_elements * bytes);
  to.set("parallelism.overlap", stage == 3 ? json{"gradients", "parameters"} : json(json::array()));
  if (stage != 3) return;
  to.set("parallelism.max_live_parameters", deepspeed_live_parameters);
  to.set("parallelism.persistence_threshold", deepspeed_persistence_threshold);
}

void read_megatron_plugin(Settings& from, JobDraft& to) {
  const auto whole = [&](const char* name) {
    return from.whole(std::string("megatron_lm_config.megatron_lm_") + name);
  };
  const auto flag = [&](const char* name) {
    return from.flag(std::string("megatron_lm_config.megatron_lm_") + name).value_or(false);
  };
  to.set("parallelism.tensor", whole("tp_degree").value_or(1));
  to.set("parallelism.pipeline", whole("pp_degree").value_or(1));
  to.set("parallelism.context", whole("context_parallel_size").value_or(1));
  to.set("parallelism.expert", whole("expert_model_parallel_size").value_or(1));
  to.set("parallelism.sequence_parallel",
         flag("sequence_parallelism") && to.count("parallelism.tensor") > 1);
  to.set("parallelism.zero_stage", flag("use_distributed_optimizer") ? 1 : 0);
  to.set("parallelism.reduce_gradients", "last");
  to.set("training.recompute", flag("recompute_activations") ? "selective" : "none");
  if (const auto clip = from.number("megatron_lm_config.megatron_lm_gradient_clipping"))
    to.set("training.gradient_clip", *clip);
}

void read_sharding(Settings& from, JobDraft& to) {
  const std::string kind = kind_of(from);
  const ParallelSizes degrees = read_degrees(from, to);
  const bool each =
      from.flag("accelerator_config.gradient_accumulation_kwargs.sync_each_batch").value_or(false);
  const auto bucket = from.whole("ddp_bucket_cap_mb");
  to.set("parallelism.placement", "PDT");
  to.set("parallelism.sequence_parallel", false);
  to.set("parallelism.partition", "even");
  if (kind == "DEEPSPEED") return read_deepspeed_plugin(from, to);
  if (kind == "MEGATRON_LM") return read_megatron_plugin(from, to);
  to.set("parallelism.reduce_gradients", each ? "each" : "last");
  if (kind == "FSDP") return read_fsdp(from, to, degrees);
  to.set("parallelism.zero_stage", 0);
  if (replicas_of_draft(to) != 1)
    to.set("parallelism.reduce_bucket_bytes",
           product({bucket.value_or(ddp_bucket_mebibytes), mebibyte}));
}

void write_sharding(const JobValues& from, Settings& to) {
  const Parallelism& p = from.plan.parallelism;
  to.add("accelerator_config.gradient_accumulation_kwargs.sync_each_batch",
         p.reduce_gradients == ReduceGradients::each);
  if (p.reduce_bucket_bytes > 0) to.add("ddp_bucket_cap_mb", p.reduce_bucket_bytes / mebibyte);
  if (p.zero_stage != 3) return;
  const int shared = from.plan.shard_group() / p.context;
  to.add("fsdp_config.fsdp_version", 2);
  to.add("fsdp_config.fsdp_reshard_after_forward", !p.keeps_gathered);
  to.add("fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  to.add("fsdp_config.fsdp_activation_checkpointing",
         from.plan.training.recompute == Recompute::full);
  to.add("fsdp_config.fsdp_offload_params", false);
  to.add("fsdp_config.fsdp_cpu_ram_efficient_loading", false);
  to.add("fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
  to.add("parallelism_config.parallelism_config_dp_replicate_size", p.data / shared);
  to.add("parallelism_config.parallelism_config_dp_shard_size", shared);
  to.add("parallelism_config.parallelism_config_tp_size", p.tensor);
  to.add("parallelism_config.parallelism_config_cp_size", p.context);
  to.add("parallelism_config.parallelism_config_cp_comm_strategy",
         p.context_exchange == ContextExchange::p2p && p.context > 1 ? "alltoall" : "allgather");
}

Rule sharding_rule() {
  return {
      {"parallelism.zero_stage", "parallelism.shard", "parallelism.tensor", "parallelism.context",
       "parallelism.context_exchange", "parallelism.reshard_after_forward",
       "parallelism.reduce_gradients", "parallelism.reduce_bucket_bytes", "parallelism.placement",
       "parallelism.sequence_parallel"},
      {"fsdp_config.fsdp_version",
       "fsdp_config.fsdp_sharding_strategy",
       "fsdp_config.fsdp_reshard_after_forward",
       "fsdp_config.fsdp_activation_checkpointing",
       "parallelism_config.parallelism_config_dp_replicate_size",
       "parallelism_config.parallelism_config_dp_shard_size",
       "parallelism_config.parallelism_config_tp_size",
       "parallelism_config.parallelism_config_cp_size",
       "parallelism_config.parallelism_config_sp_size",
       "parallelism_config.parallelism_config_cp_comm_strategy",
       "deepspeed_config.zero_stage",
       "deepspeed_config.gradient_clipping",
       "deepspeed_config.deepspeed_config_file",
       "megatron_lm_config.megatron_lm_tp_degree",
       "megatron_lm_config.megatron_lm_pp_degree",
       "megatron_lm_config.megatron_lm_context_parallel_size",
       "megatron_lm_config.megatron_lm_expert_model_parallel_size",
       "megatron_lm_config.megatron_lm_sequence_parallelism",
       "megatron_lm_config.megatron_lm_use_distributed_optimizer",
       "megatron_lm_config.megatron_lm_recompute_activations",
       "megatron_lm_config.megatron_lm_gradient_clipping",
       "ddp_bucket_cap_mb",
       "accelerator_config.gradient_accumulation_kwargs.sync_each_batch"},
      read_sharding,
      write_sharding,
      "HYBRID_SHARD shards inside hosts; gradients are summed in the last micro-batch unless "
      "sync_each_batch says otherwise"};
}

void read_recompute(Settings& from, JobDraft& to) {
  const bool trainers = from.flag("gradient_checkpointing").value_or(false);
  const bool own = from.flag(fsdp(from, "fsdp_config.fsdp_activation_checkpointing",
                                  "fsdp_config.activation_checkpointing"))
                       .value_or(false);
  if (trainers || own || !to.has("training.recompute"))
    to.set("training.recompute", trainers || own ? "full" : "none");
  std::string backend = from.word("dynamo_config.dynamo_backend")
                            .value_or(from.word("dynamo_backend").value_or("no"));
  if (backend == "false") backend = "no";
  const bool compiled = in_capitals(backend) != "NO" || from.flag("torch_compile").value_or(false);
  to.set("training.compiler", compiled ? "full" : "none");
}

Rule recompute_rule() {
  return {{"training.recompute", "training.compiler"},
          {"gradient_checkpointing", "fsdp_config.fsdp_activation_checkpointing",
           "dynamo_config.dynamo_backend", "dynamo_backend", "torch_compile"},
          read_recompute,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            to.add("gradient_checkpointing",
                   t.recompute == Recompute::full && from.plan.parallelism.zero_stage != 3);
            if (t.compiler != CompilerLevel::none)
              to.add("dynamo_config.dynamo_backend", "INDUCTOR");
          }};
}

void read_batch(Settings& from, JobDraft& to) {
  const std::int64_t data = replicas_of_draft(to);
  const auto rounds = from.count("deepspeed_config.gradient_accumulation_steps");
  const auto pieces = from.count("megatron_lm_config.megatron_lm_num_micro_batches");
  read_trainer_batch(from, to, data);
  const std::int64_t micro = to.count("training.micro_batch", 0);
  if (micro > 0 && data > 0 && !to.has("training.global_batch") && (rounds || pieces))
    to.set("training.global_batch", product({micro, data, rounds.value_or(pieces.value_or(1))}));
}

Rule batch_rule() {
  return {{"training.micro_batch", "training.global_batch"},
          {"per_device_train_batch_size", "gradient_accumulation_steps",
           "deepspeed_config.gradient_accumulation_steps",
           "megatron_lm_config.megatron_lm_num_micro_batches"},
          read_batch,
          write_trainer_batch,
          "the Trainer's batches are of one replica"};
}

Rule optimizer_rule() {
  return {
      {"training.optimizer", "training.master_weights", "training.moments_precision",
       "training.learning_rate", "training.beta1", "training.beta2", "training.epsilon",
       "training.weight_decay", "training.gradient_clip"},
      {"optim", "pure_bf16", "learning_rate", "adam_beta1", "adam_beta2", "adam_epsilon",
       "weight_decay", "max_grad_norm"},
      read_trainer_optimizer,
      write_trainer_optimizer,
      "an optim that ends in _8bit keeps moments in blocks of 8 bits; bitsandbytes leaves small "
      "parameters and embeddings in fp32, torchao (adamw_torch_8bit) the small ones"};
}

}  // namespace

const Rules& accelerate_rules() {
  static const Rules rules = {
      cluster_rule(),          cluster_sizes_rule(),
      trainer_model_rule(),    sized_script_model_rule(),
      trainer_sequence_rule(), precision_rule(),
      sharding_rule(),         batch_rule(),
      optimizer_rule(),        trainer_steps_rule(),
      recompute_rule(),        trainer_attention_rule(),
      trainer_adapter_rule(),
  };
  return rules;
}

}  // namespace meshwright::interop
