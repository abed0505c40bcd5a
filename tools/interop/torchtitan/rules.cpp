// Translates between torchtitan's settings and the keys of the job file. The settings are those of
// the TOML of 0.2, and flags of newer versions if their names differ.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/compiler/frameworks/stages.h"
#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/huggingface/trainer.h"
#include "tools/interop/launch/cluster_rule.h"
#include "tools/interop/model_names.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

// Newer versions of torchtitan have their settings as functions of Python: --module llama3 --config
// llama3_8b. Such a function is not read.
constexpr const char* named_function = "--config names a function of Python, which is not read";
bool is_of_python(const Settings& settings) {
  return settings.has("config") && settings.has("program");
}

// Returns the value of a setting that has two names, or nothing if neither is present.
std::optional<std::int64_t> whole_of(Settings& from, const char* name, const char* other) {
  const std::optional<std::int64_t> one = from.whole(name), two = from.whole(other);
  return one ? one : two;
}

Rule sequence_rule() {
  return {{"training.sequence_length"},
          {"training.seq_len", "training.max_context_length"},
          [](Settings& from, JobDraft& to) {
            const auto length = whole_of(from, "training.seq_len", "training.max_context_length");
            if (!length && is_of_python(from)) {
              to.ask("training.sequence_length", named_function);
              to.remark(from.spelled("config") +
                        " names a function of Python, which is not read: what it says of degrees, "
                        "recomputation, precision and compiling is to be given with --set");
            } else if (length || (!to.has("training.sequence_length") &&
                                  !from.has("model.pretrained_model_name_or_path")))
              to.set("training.sequence_length", length.value_or(2048));
          },
          [](const JobValues& from, Settings& to) {
            to.add("training.seq_len", from["training.sequence_length"]);
          }};
}

std::int64_t degree(Settings& from, const char* name, const char* key, JobDraft& to) {
  const std::int64_t ranks = from.count(name).value_or(1);
  to.set(key, ranks);
  return ranks;
}

// Takes as many GPUs as degrees that are all given multiply to, if nothing says how many there are:
// of one host, or whole hosts. `of_host` is the number of GPUs of a host.
bool take_ranks(std::int64_t ranks, std::int64_t of_host, JobDraft& to) {
  const bool is_part = ranks < of_host;
  if (to.has("cluster.count") || to.has("cluster.processes_per_host") ||
      (!is_part && ranks % of_host != 0))
    return false;
  to.set(is_part ? "cluster.processes_per_host" : "cluster.count",
         is_part ? ranks : ranks / of_host);
  to.remark("no setting says how many GPUs there are; they are the " + std::to_string(ranks) +
            " that the degrees multiply to");
  return true;
}

// Returns the shard degree. A degree of -1, which is the default, stands for the ranks that the
// other degrees, whose product is `others`, leave. Returns nothing for it as long as the job's
// number of ranks is unknown.
std::optional<std::int64_t> read_shard(Settings& from, std::int64_t others, JobDraft& to) {
  const char* const name = "parallelism.data_parallel_shard_degree";
  const std::int64_t shard = from.whole(name).value_or(-1);
  const std::optional<int> ranks = to.ranks();
  if (shard >= 1 && ranks && product({shard, others}) != *ranks &&
      !take_ranks(product({shard, others}), *ranks, to))
    from.fail(name, std::to_string(shard) + " x the other degrees " + std::to_string(others) +
                        " = " + std::to_string(product({shard, others})) + ", but there are " +
                        std::to_string(*ranks) + " ranks; use -1, which takes what is left");
  if (shard >= 1) return shard;
  if (shard != -1) from.fail(name, std::to_string(shard) + " is no degree; use 1 or more, or -1");
  if (!ranks) return std::nullopt;
  if (*ranks % others != 0) {
    const bool has_hosts = !to.has("cluster.count") && others % *ranks == 0;
    from.fail(name, std::to_string(*ranks) + " ranks are no multiple of the other degrees, " +
                        std::to_string(others) +
                        (has_hosts ? "; if more hosts train, give --set cluster.count=" +
                                         std::to_string(others / *ranks) + " or a multiple"
                                   : ""));
  }
  return *ranks / others;
}

void read_sharding(Settings& from, JobDraft& to) {
  const std::int64_t copies = from.count("parallelism.data_parallel_replicate_degree").value_or(1);
  const std::int64_t tensor =
      degree(from, "parallelism.tensor_parallel_degree", "parallelism.tensor", to);
  const std::int64_t context =
      degree(from, "parallelism.context_parallel_degree", "parallelism.context", to);
  const std::int64_t stages =
      degree(from, "parallelism.pipeline_parallel_degree", "parallelism.pipeline", to);
  const bool cuts_rows = from.flag("parallelism.enable_sequence_parallel").value_or(true);
  to.set("parallelism.sequence_parallel", tensor > 1 && cuts_rows);
  const auto shard = read_shard(from, product({copies, tensor, context, stages}), to);
  const auto policy =
      from.word("parallelism.fsdp_reshard_after_forward", {"default", "always", "never"});
  if (!shard && copies > 1)
    from.fail("parallelism.data_parallel_replicate_degree",
              "with " + std::to_string(copies) +
                  " copies, the number of ranks that share parameters follows from the number of "
                  "GPUs; give --set cluster.machine=NAME and cluster.count, or the shard degree");
  if (shard) to.set("parallelism.data", product({copies, *shard}));
  const bool alone = shard && product({copies, *shard, context}) == 1;
  const bool sharded = !shard || product({*shard, context}) > 1;
  to.set("parallelism.zero_stage", sharded && !alone ? 3 : 0);
  to.set("parallelism.placement", "PDT");
  to.set("parallelism.reduce_gradients", alone || stages > 1 ? "last" : "each");
  if (!sharded && !alone) to.set("parallelism.reduce_bucket_bytes", torchtitan_ddp_bucket_bytes);
  if (!sharded) return;
  if (copies > 1) to.set("parallelism.shard", product({*shard, context}));
  to.set("parallelism.reshard_after_forward",
         policy == "never" || (policy != "always" && stages > 1) ? "never" : "always");
}

Rule sharding_rule() {
  return {
      {"parallelism.tensor", "parallelism.context", "parallelism.pipeline", "parallelism.data",
       "parallelism.shard", "parallelism.zero_stage", "parallelism.reshard_after_forward",
       "parallelism.sequence_parallel", "parallelism.reduce_gradients", "parallelism.placement",
       "cluster.count", "cluster.processes_per_host"},
      {"parallelism.data_parallel_replicate_degree", "parallelism.data_parallel_shard_degree",
       "parallelism.tensor_parallel_degree", "parallelism.context_parallel_degree",
       "parallelism.pipeline_parallel_degree", "parallelism.enable_sequence_parallel",
       "parallelism.fsdp_reshard_after_forward"},
      read_sharding,
      [](const JobValues& from, Settings& to) {
        const Parallelism& p = from.plan.parallelism;
        const int shared = p.zero_stage == 0 ? 1 : from.plan.shard_group() / p.context;
        to.add("parallelism.data_parallel_replicate_degree", p.data / shared);
        to.add("parallelism.data_parallel_shard_degree", shared);
        to.add("parallelism.fsdp_reshard_after_forward", p.keeps_gathered ? "never" : "always");
        to.add("parallelism.tensor_parallel_degree", p.tensor);
        to.add("parallelism.context_parallel_degree", p.context);
        to.add("parallelism.pipeline_parallel_degree", p.pipeline);
      },
      "FSDP shards over data (shard) x context ranks; `default` keeps parameters with stages only; "
      "order of ranks: PDT"};
}

// Returns the number of sequences that `tokens` tokens make. Throws InputError if they are not
// whole sequences.
std::int64_t sequences_in(Settings& from, const char* name, std::int64_t tokens,
                          const JobDraft& to) {
  const std::int64_t length = to.count("training.sequence_length");
  if (tokens % length != 0)
    from.fail(name, std::to_string(tokens) + " tokens are no whole sequences of " +
                        std::to_string(length));
  return tokens / length;
}

void read_batch(Settings& from, JobDraft& to) {
  std::optional<std::int64_t> local = from.count("training.local_batch_size");
  if (const auto old = from.count("training.batch_size"); !local) local = old;
  std::optional<std::int64_t> global = from.whole("training.global_batch_size");
  const std::int64_t in_stages =
      from.whole("parallelism.pipeline_parallel_microbatch_size").value_or(1);
  const std::int64_t pieces = from.whole("parallelism.num_pp_microbatches").value_or(0);
  if (const auto tokens = from.count("training.num_tokens_per_microbatch_per_dp_rank"))
    local = sequences_in(from, "training.num_tokens_per_microbatch_per_dp_rank", *tokens, to);
  if (const auto tokens = from.count("training.num_tokens_per_train_step"))
    global = sequences_in(from, "training.num_tokens_per_train_step", *tokens, to);
  if (!local && is_of_python(from) && !to.is_given("training.micro_batch")) {
    to.ask("training.micro_batch", named_function);
    to.ask("training.global_batch", named_function);
    return;
  }
  const std::int64_t sequences = local.value_or(8);
  const bool has_stages = to.count("parallelism.pipeline") > 1;
  const std::int64_t micro = !has_stages  ? sequences
                             : pieces > 0 ? std::max<std::int64_t>(1, sequences / pieces)
                                          : in_stages;
  to.set("training.micro_batch", micro);
  const std::int64_t data = to.count("parallelism.data", 0);
  if (!global || *global < 1)
    global =
        data > 0 ? std::optional(product({sequences, data})) : std::nullopt;  // otherwise unknown
  if (!global) return to.follows_from_ranks("training.global_batch");
  to.set("training.global_batch", *global);
  if (has_stages && data > 0 && *global > product({sequences, data}))
    to.remark("training.global_batch_size is " +
              std::to_string(*global / product({sequences, data})) +
              " rounds of the pipeline; here one round has all its micro-batches");
}

Rule batch_rule() {
  return {{"training.micro_batch", "training.global_batch"},
          {"training.local_batch_size", "training.global_batch_size",
           "parallelism.pipeline_parallel_microbatch_size", "training.batch_size",
           "training.num_tokens_per_microbatch_per_dp_rank", "training.num_tokens_per_train_step",
           "parallelism.num_pp_microbatches"},
          read_batch,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            const bool has_stages = from.plan.parallelism.pipeline > 1;
            to.add("training.local_batch_size",
                   has_stages ? t.global_batch / from.plan.parallelism.data : t.micro_batch);
            to.add("training.global_batch_size", t.global_batch);
            if (has_stages) to.add("parallelism.pipeline_parallel_microbatch_size", t.micro_batch);
          },
          "without stages local_batch_size is one micro-batch; with stages it is all of a "
          "replica's, in pieces of pipeline_parallel_microbatch_size"};
}

Rule context_rule() {
  return {
      {"parallelism.context_exchange"},
      {"parallelism.context_parallel_rotate_method", "parallelism.context_parallel_load_balancer"},
      [](Settings& from, JobDraft& to) {
        const auto way =
            from.word("parallelism.context_parallel_rotate_method", {"allgather", "alltoall"});
        const auto balance = from.word("parallelism.context_parallel_load_balancer");
        if (to.count("parallelism.context") == 1) return;
        if (balance && *balance != "headtail")
          from.fail("parallelism.context_parallel_load_balancer",
                    "'" + *balance + "' is not built; headtail is");
        to.set("parallelism.context_exchange", way == "alltoall" ? "p2p" : "all_gather");
      },
      [](const JobValues& from, Settings& to) {
        const Parallelism& p = from.plan.parallelism;
        if (p.context == 1) return;
        to.add("parallelism.context_parallel_rotate_method",
               p.context_exchange == ContextExchange::p2p ? "alltoall" : "allgather");
        to.add("parallelism.context_parallel_load_balancer", "headtail");
      },
      "ranks have the first and the last chunks of a sequence (headtail)"};
}

std::vector<std::string> converters_of(Settings& from) {
  std::vector<std::string> names;
  for (const std::string& word : from.words("model.converters"))
    for (std::size_t begin = 0; begin <= word.size();) {  // a flag holds several names with commas
      const std::size_t end = std::min(word.find(',', begin), word.size());
      if (end > begin) names.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
  return names;
}

void read_precision(Settings& from, JobDraft& to) {
  const bool pure = from.word("training.dtype", {"bfloat16", "float32"}) == "bfloat16";
  const bool mixed =
      from.word("training.mixed_precision_param", {"bfloat16", "float32"}).value_or("bfloat16") ==
      "bfloat16";
  const bool reduces_bf16 =
      from.word("training.mixed_precision_reduce", {"float32", "bfloat16"}) == "bfloat16";
  bool has_float8 = from.flag("float8.enable_float8_linear").value_or(false), has_mx = false;
  // In 2024 a word chose the kind of scales, and "" none.
  has_float8 |= !from.word("training.fp8_linear").value_or("").empty();
  for (const std::string& name : converters_of(from)) {
    has_float8 |= name == "float8" || name == "quantize.linear.float8";
    has_mx |= name == "mx" || name == "quantize.linear.mx";
    if (name.starts_with("quantize.grouped_mm"))
      to.remark("model.converters " + name + ": experts multiply 16 bits here");
  }
  const bool in_replicas =
      to.number("parallelism.zero_stage", 3) == 3 || to.count("parallelism.data") > 1;
  const bool mixes =
      in_replicas || to.count("parallelism.tensor") * to.count("parallelism.pipeline") == 1;
  to.set("training.precision", has_float8 || has_mx       ? "fp8"
                               : pure || (mixes && mixed) ? "bf16"
                                                          : "fp32");
  if (mixed && !mixes && !pure && !has_float8 && !has_mx)
    to.remark(
        "no ranks share parameters, and FSDP alone mixes precisions: products are planned in fp32; "
        "--set cluster.count says more hosts");
  if (has_mx) to.set("training.fp8_recipe", "mxfp8");
  const bool in_8_bits =
      from.flag("quantize.linear.float8.enable_fsdp_float8_all_gather").value_or(false) ||
      from.flag("float8.enable_fsdp_float8_all_gather").value_or(false);
  if (has_float8 && !has_mx && in_8_bits && to.number("parallelism.zero_stage", 3) == 3)
    to.set("training.fp8_gathers", true);
  to.set("training.gradient_reduce_precision", reduces_bf16 ? "bf16" : "fp32");
  to.set("training.fuse_gradient_accumulation", false);
  if (!pure) return;
  to.set("training.master_weights", "none");
  to.set("training.moments_precision", "bf16");
}

Rule precision_rule() {
  return {{"training.precision", "training.fp8_recipe", "training.fp8_gathers",
           "training.master_weights", "training.moments_precision",
           "training.gradient_reduce_precision", "training.fuse_gradient_accumulation"},
          {"training.dtype", "training.mixed_precision_param", "training.mixed_precision_reduce",
           "model.converters", "float8.enable_float8_linear", "training.fp8_linear",
           "quantize.linear.float8.enable_fsdp_float8_all_gather",
           "float8.enable_fsdp_float8_all_gather"},
          read_precision,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            const bool pure = t.master_weights == MasterWeights::none;
            to.add("training.dtype", pure ? "bfloat16" : "float32");
            to.add("training.mixed_precision_param",
                   t.precision == Precision::fp32 ? "float32" : "bfloat16");
            to.add("training.mixed_precision_reduce", "float32");
            if (t.precision != Precision::fp8) return;
            const bool mx = t.fp8_recipe == Fp8Recipe::mxfp8;
            to.add("model.converters",
                   json::array({mx ? "quantize.linear.mx" : "quantize.linear.float8"}));
            if (mx) to.add("quantize.linear.mx.recipe_name", "mxfp8_cublas");
            if (!t.fp8_gathers) return;
            to.add("quantize.linear.float8.enable_fsdp_float8_all_gather", true);
            to.add("quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp", true);
          },
          "mixed precision needs several replicas or one rank; with tensor ranks or stages alone "
          "torchtitan computes in training.dtype"};
}

void read_recompute(Settings& from, JobDraft& to) {
  const std::string mode =
      from.word("activation_checkpoint.mode", {"none", "selective", "full", "memory_budget"})
          .value_or("selective");
  const std::string option = from.word("activation_checkpoint.selective_ac_option").value_or("2");
  const std::optional<double> budget = from.number("activation_checkpoint.memory_budget");
  if (mode == "memory_budget") {
    if (budget.value_or(0.5) > 0)
      to.set("training.recompute_budget", budget.value_or(0.5));
    else
      to.set("training.recompute", "full");
  } else if (mode != "selective") {
    to.set("training.recompute", mode);
  } else if (option == "op") {
    to.set("training.recompute", "selective");
    to.remark(
        "selective_ac_option op also makes every second product of a block again; "
        "`selective` here makes attention scores again only");
  } else {
    const std::optional<std::int64_t> every =
        from.whole("activation_checkpoint.selective_ac_option");
    if (every && *every < 1)
      from.fail("activation_checkpoint.selective_ac_option",
                "'" + option + "' is neither op nor a number of 1 or more");
    to.set("training.recompute", "full");
    to.set("training.recompute_fraction", 1.0 / static_cast<double>(every.value_or(2)));
  }
}

Rule recompute_rule() {
  return {{"training.recompute", "training.recompute_fraction", "training.recompute_budget"},
          {"activation_checkpoint.mode", "activation_checkpoint.selective_ac_option",
           "activation_checkpoint.memory_budget"},
          read_recompute,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            if (t.recompute_budget) {
              to.add("activation_checkpoint.mode", "memory_budget");
              to.add("activation_checkpoint.memory_budget", *t.recompute_budget);
            } else if (t.recompute == Recompute::selective) {
              to.add("activation_checkpoint.mode", "selective");
              to.add("activation_checkpoint.selective_ac_option", "op");
            } else if (t.recompute_fraction < 1) {
              to.add("activation_checkpoint.mode", "selective");
              to.add("activation_checkpoint.selective_ac_option",
                     std::to_string(std::lround(1.0 / t.recompute_fraction)));
            } else {
              to.add("activation_checkpoint.mode",
                     t.recompute == Recompute::full ? "full" : "none");
            }
          },
          "every k-th block in full is recompute_fraction 1/k"};
}

void read_compiler(Settings& from, JobDraft& to) {
  const bool on =
      from.flag("compile.enable").value_or(false) || from.flag("training.compile").value_or(false);
  const std::vector<std::string> parts = from.words("compile.components");
  const bool of_model = parts.empty() || std::ranges::find(parts, "model") != parts.end();
  const bool in_pieces = from.flag("parallelism.enable_async_tensor_parallel").value_or(false) ||
                         from.flag("compile.enable_async_tensor_parallel").value_or(false);
  const bool compiles = on && of_model;
  const std::int64_t tensor = to.count("parallelism.tensor");
  if (in_pieces && !compiles)
    from.fail(from.has("parallelism.enable_async_tensor_parallel")
                  ? "parallelism.enable_async_tensor_parallel"
                  : "compile.enable_async_tensor_parallel",
              "needs compile.enable with the component model");
  to.set("training.compiler", compiles ? "full" : "none");
  to.set("training.cuda_graph", false);
  if (to.value("training.precision") == "fp32")
    to.set("training.attention", "unfused");
  else if (!compiles && !to.has("training.attention"))
    to.set("training.attention", "flash2");
  json overlap = {"gradients", "parameters"};
  if (in_pieces && tensor > 1) {
    overlap.push_back("tensor");
    to.set("parallelism.tensor_chunks", tensor);
  }
  to.set("parallelism.overlap", std::move(overlap));
}

Rule compiler_rule() {
  return {{"training.compiler", "training.attention", "training.cuda_graph", "parallelism.overlap",
           "parallelism.tensor_chunks"},
          {"compile.enable", "compile.components", "training.compile",
           "parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"},
          read_compiler,
          [](const JobValues& from, Settings& to) {
            const bool on = from.plan.training.compiler == CompilerLevel::full;
            to.add("compile.enable", on);
            if (on) to.add("compile.components", json::array({"model", "loss"}));
            to.add("parallelism.enable_async_tensor_parallel",
                   from.plan.parallelism.overlap_tensor);
          },
          "attention is PyTorch's choice: cuDNN's on Hopper and newer, else FlashAttention"};
}

void read_schedule(Settings& from, JobDraft& to) {
  const auto decay = from.word("lr_scheduler.decay_type", {"linear", "sqrt", "cosine"});
  const std::optional<double> ratio = from.number("lr_scheduler.decay_ratio");
  if (decay == "sqrt") to.remark("lr_scheduler.decay_type sqrt: the rate falls linearly here");
  if (ratio && *ratio > 0)
    to.remark("lr_scheduler.decay_ratio: the rate falls from the end of the warm-up here");
  to.set("training.learning_rate_schedule", ratio == 0          ? "constant"
                                            : decay == "cosine" ? "cosine"
                                                                : "linear");
}

Rule schedule_rule() {
  return {{"training.learning_rate_schedule"},
          {"lr_scheduler.decay_type", "lr_scheduler.decay_ratio"},
          read_schedule,
          [](const JobValues& from, Settings& to) {
            const json schedule = from["training.learning_rate_schedule"];
            if (schedule == "constant") to.add("lr_scheduler.decay_ratio", 0.0);
            to.add("lr_scheduler.decay_type", schedule == "cosine" ? "cosine" : "linear");
          },
          "decay_ratio 0 keeps the rate constant"};
}

// Returns the rule for the tensor degree of experts. By default, torchtitan does not split experts
// over tensor groups.
Rule expert_tensor_rule() {
  static constexpr std::string_view setting = "parallelism.expert_tensor_parallel_degree";
  return {{"parallelism.expert_tensor"},
          {std::string(setting)},
          [](Settings& from, JobDraft& to) {
            const std::int64_t given = from.whole(setting).value_or(1);
            if (to.count("parallelism.expert") > 1 && to.count("parallelism.tensor") > 1)
              to.set("parallelism.expert_tensor", given);
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.tensor > 1 && p.expert > 1 && p.expert_tensor > 1)
              to.add(std::string(setting), p.expert_tensor);
          },
          "1 or the tensor degree"};
}

// Returns the rule for the adapters of NeMo AutoModel's recipes. torchtitan has no adapters, so an
// export writes nothing.
Rule adapter_rule() {
  Rule rule = trainer_adapter_rule();
  rule.write = nullptr;
  rule.note = "LoRA and QLoRA of NeMo AutoModel";
  return rule;
}

Rule clip_rule() {
  return {{"training.gradient_clip"},
          {"training.max_norm"},
          [](Settings& from, JobDraft& to) {
            if (from.word("training.max_norm") == "inf")
              to.set("training.gradient_clip", 0);
            else
              to.set("training.gradient_clip", from.number("training.max_norm").value_or(1.0));
          },
          [](const JobValues& from, Settings& to) {
            const double norm = from.plan.training.gradient_clip;
            to.add("training.max_norm", norm > 0 ? norm : std::numeric_limits<double>::infinity());
          },
          "inf clips nothing"};
}

}  // namespace

const Rules& torchtitan_rules() {
  static const Rules rules = {
      cluster_sizes_rule(),
      torchtitan_model_rule(),
      sequence_rule(),
      sharding_rule(),
      torchtitan_stages_rule(),
      whole_rule("parallelism.expert", "parallelism.expert_parallel_degree"),
      expert_tensor_rule(),
      batch_rule(),
      context_rule(),
      precision_rule(),
      recompute_rule(),
      compiler_rule(),
      words_rule("training.optimizer", "optimizer.name", {{"adamw", "AdamW"}, {"adam", "Adam"}}),
      number_rule("training.learning_rate", "optimizer.lr", 8e-4),
      number_rule("training.beta1", "optimizer.beta1"),
      number_rule("training.beta2", "optimizer.beta2", 0.95),
      number_rule("training.epsilon", "optimizer.eps"),
      number_rule("training.weight_decay", "optimizer.weight_decay", 0.1),
      whole_rule("training.warmup_steps", "lr_scheduler.warmup_steps", 200),
      schedule_rule(),
      clip_rule(),
      adapter_rule(),
      whole_rule("training.steps", "training.steps", 10000),
      whole_rule("training.seed", "debug.seed"),
      flag_rule("training.deterministic", "debug.deterministic", true),
  };
  return rules;
}

}  // namespace meshwright::interop
