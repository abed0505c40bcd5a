// Translates between Megatron-LM's arguments and the keys of the job file. Names and defaults:
// megatron/training/arguments.py and the dataclasses of megatron.core (0.16).
#include <algorithm>

#include "models/compiler/frameworks/stages.h"
#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/launch/cluster_rule.h"
#include "tools/interop/megatron/megatron.h"

namespace meshwright::interop {

namespace {

Rule loss_rule() {
  return {{"training.cross_entropy_fusion"},
          {"cross-entropy-loss-fusion"},
          [](Settings& from, JobDraft& to) {
            to.set("training.cross_entropy_fusion",
                   from.flag("cross-entropy-loss-fusion").value_or(false));
          },
          [](const JobValues& from, Settings& to) {
            if (from["training.cross_entropy_fusion"] == true)
              to.add("cross-entropy-loss-fusion", true);
          }};
}

Rule tokens_ahead_rule() {
  return {{"training.mtp_layers", "training.mtp_loss_weight"},
          {"mtp-num-layers", "mtp-loss-scaling-factor"},
          [](Settings& from, JobDraft& to) {
            const std::int64_t layers = from.whole("mtp-num-layers").value_or(0);
            const double weight =
                from.number("mtp-loss-scaling-factor").value_or(default_mtp_loss_weight);
            if (layers == 0) return;
            to.set("training.mtp_layers", layers);
            if (weight != default_mtp_loss_weight) to.set("training.mtp_loss_weight", weight);
          },
          [](const JobValues& from, Settings& to) {
            const Training& training = from.plan.training;
            if (training.mtp_layers == 0) return;
            to.add("mtp-num-layers", training.mtp_layers);
            to.add("mtp-loss-scaling-factor",
                   training.mtp_loss_weight.value_or(default_mtp_loss_weight));
          }};
}

Rule steps_rule() {
  return {
      {"training.steps"},
      {"train-iters", "train-samples"},
      [](Settings& from, JobDraft& to) {
        const auto steps = from.whole("train-iters"), samples = from.whole("train-samples");
        if (steps)
          to.set("training.steps", *steps);
        else if (samples)
          to.set("training.steps",
                 std::max<std::int64_t>(1, *samples / to.count("training.global_batch")));
      },
      [](const JobValues& from, Settings& to) { to.add("train-iters", from["training.steps"]); }};
}

Rule warmup_rule() {
  return {{"training.warmup_steps"},
          {"lr-warmup-iters", "lr-warmup-samples", "lr-warmup-fraction"},
          [](Settings& from, JobDraft& to) {
            const auto steps = from.whole("lr-warmup-iters");
            const auto samples = from.whole("lr-warmup-samples");
            const auto share = from.number("lr-warmup-fraction");
            if (steps)
              to.set("training.warmup_steps", *steps);
            else if (samples)
              to.set("training.warmup_steps", *samples / to.count("training.global_batch"));
            else if (share)
              to.set("training.warmup_steps", amount_of(*share * to.number("training.steps", 0)));
          },
          [](const JobValues& from, Settings& to) {
            to.add("lr-warmup-iters", from["training.warmup_steps"]);
          }};
}

Rule precision_rule() {
  return {{"training.precision", "training.fp8_recipe", "training.fp8_experts",
           "training.first_layers_in_bf16", "training.last_layers_in_bf16"},
          {"bf16", "fp16", "fp8-format", "fp8-recipe", "fp4-format", "fp4-recipe",
           "first-last-layers-bf16", "num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16"},
          [](Settings& from, JobDraft& to) {
            const bool bf16 = from.flag("bf16").value_or(false);
            const bool fp16 = from.flag("fp16").value_or(false);
            if (bf16 && fp16)
              from.fail("fp16", "given beside " + from.spelled("bf16") + "; keep one of them");
            const auto format = from.word("fp8-format", {"hybrid", "e4m3"});
            const auto recipe =
                from.word("fp8-recipe", {"delayed", "tensorwise", "blockwise", "mxfp8"});
            const bool fp4 = from.word("fp4-format", {"e2m1"}).has_value();
            from.word("fp4-recipe", {"nvfp4"});
            if (fp4 && format)
              from.fail("fp4-format",
                        "given beside " + from.spelled("fp8-format") + "; keep one of them");
            if (!bf16 && !fp16 && from.has("program"))
              to.remark("neither " + from.spelled("bf16") + " nor " + from.spelled("fp16") +
                        " is given: Megatron-LM trains in fp32 then");
            to.set("training.precision", fp4      ? "nvfp4"
                                         : format ? "fp8"
                                         : bf16   ? "bf16"
                                         : fp16   ? "fp16"
                                                  : "fp32");
            const bool leaves = from.flag("first-last-layers-bf16").value_or(false);
            const std::int64_t first = from.whole("num-layers-at-start-in-bf16").value_or(1);
            const std::int64_t last = from.whole("num-layers-at-end-in-bf16").value_or(1);
            if (!format && !fp4) return;
            if (leaves && first > 0) to.set("training.first_layers_in_bf16", first);
            if (leaves && last > 0) to.set("training.last_layers_in_bf16", last);
            if (format) to.set("training.fp8_recipe", recipe.value_or("delayed"));
            // Experts whose rows are counted do not multiply 8 bits here yet.
            const json model = to.value("model");
            if (model.is_object() && model.contains("num_local_experts") &&
                model.contains("expert_capacity_factor"))
              to.set("training.fp8_experts", true);
          },
          [](const JobValues& from, Settings& to) {
            const json precision = from["training.precision"];
            if (precision == "fp16") to.add("fp16", true);
            if (precision == "bf16" || precision == "fp8" || precision == "nvfp4")
              to.add("bf16", true);
            if (precision == "nvfp4") {
              to.add("fp4-format", "e2m1");
              to.add("fp4-recipe", "nvfp4");
            }
            if (from.plan.training.has_layers_in_bf16()) {
              to.add("first-last-layers-bf16", true);
              to.add("num-layers-at-start-in-bf16", from.plan.training.first_layers_in_bf16);
              to.add("num-layers-at-end-in-bf16", from.plan.training.last_layers_in_bf16);
            }
            if (precision != "fp8") return;
            const json recipe = from["training.fp8_recipe"];
            // Recipes with one scale per tensor keep gradients in e5m2 (hybrid), recipes with
            // scales per block in e4m3.
            to.add("fp8-format", recipe == "delayed" || recipe == "tensorwise" ? "hybrid" : "e4m3");
            to.add("fp8-recipe", recipe);
            if (recipe == "delayed") {
              to.add("fp8-amax-history-len", 1024);
              to.add("fp8-amax-compute-algo", "max");
            }
          }};
}

Rule loss_scale_rule() {
  return {{"training.loss_scale"},
          {"loss-scale", "initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis"},
          [](Settings& from, JobDraft& to) {
            const auto fixed = from.number("loss-scale");
            json moving = {{"initial", from.number("initial-loss-scale").value_or(4294967296.0)},
                           {"minimum", from.number("min-loss-scale").value_or(1)},
                           {"window", from.whole("loss-scale-window").value_or(1000)},
                           {"hysteresis", from.whole("hysteresis").value_or(2)}};
            if (to.value("training.precision") != "fp16") return;
            to.set("training.loss_scale", fixed ? json{{"static", *fixed}} : std::move(moving));
          },
          [](const JobValues& from, Settings& to) {
            if (!from.plan.training.scales_loss()) return;
            const LossScale scale = from.plan.training.settled_loss_scale();
            if (!scale.dynamic) {
              to.add("loss-scale", scale.initial);
              return;
            }
            to.add("initial-loss-scale", scale.initial);
            to.add("min-loss-scale", scale.minimum);
            to.add("loss-scale-window", scale.window);
            to.add("hysteresis", scale.hysteresis);
          },
          "of fp16"};
}

Rule reduce_precision_rule() {
  return {{"training.gradient_reduce_precision"},
          {"accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16"},
          [](Settings& from, JobDraft& to) {
            const bool in_fp32 = from.flag("accumulate-allreduce-grads-in-fp32").value_or(false);
            const bool in_bf16 = from.flag("grad-reduce-in-bf16").value_or(false);
            const json precision = to.value("training.precision");
            // Megatron-LM reduces gradients in fp32 with bf16 by default, but not with fp16.
            to.set("training.gradient_reduce_precision", in_bf16 && precision != "fp16" ? "bf16"
                                                         : precision == "fp16" && !in_fp32
                                                             ? "fp16"
                                                             : "fp32");
          },
          [](const JobValues& from, Settings& to) {
            const json type = from["training.gradient_reduce_precision"];
            if (type == "bf16")
              to.add("grad-reduce-in-bf16", true);
            else if (type == "fp32" && from["training.precision"] != "fp32")
              to.add("accumulate-allreduce-grads-in-fp32", true);
          }};
}

void read_recompute(Settings& from, JobDraft& to) {
  auto granularity = from.word("recompute-granularity", {"full", "selective"});
  const bool activations = from.flag("recompute-activations").value_or(false);
  if (!granularity && activations) granularity = "selective";
  auto method = from.word("recompute-method", {"uniform", "block"});
  std::optional<std::int64_t> number = from.whole("recompute-num-layers");
  // Older names of these settings. Megatron-LM has had the names recompute-* since spring 2022.
  const bool whole_blocks = from.flag("checkpoint-activations").value_or(false);
  const auto old_method = from.word("activations-checkpoint-method", {"uniform", "block"});
  const auto old_number = from.whole("activations-checkpoint-num-layers");
  if (!granularity && (whole_blocks || old_method)) granularity = "full";
  if (!method) method = old_method;
  if (!number) number = old_number;
  const std::int64_t layers = number.value_or(1);
  const std::vector<std::string> modules = from.words("recompute-modules");
  if (!granularity) {
    to.set("training.recompute", "none");
  } else if (granularity == "selective") {
    std::vector<std::string> others;
    for (const std::string& module : modules)
      if (module != "core_attn") others.push_back(module);
    if (!others.empty())
      to.remark(from.spelled("recompute-modules") + " " + list_of(others, "and") +
                ": recomputation of such modules is not predicted; memory is taken for them");
    to.set("training.recompute",
           modules.empty() || others.size() < modules.size() ? "selective" : "none");
  } else if (method == "block") {
    const auto all = static_cast<double>(to.model_layers());
    const double stages = static_cast<double>(to.count("parallelism.pipeline")) *
                          static_cast<double>(to.count("parallelism.virtual_stages"));
    if (all == 0)
      from.fail("recompute-method", "'block' needs the number of layers (--num-layers)");
    to.set("training.recompute", "full");
    to.set("training.recompute_fraction",
           std::min(1.0, static_cast<double>(layers) * stages / all));
    to.remark(from.spelled("recompute-method") + " block recomputes the first " +
              std::to_string(layers) + " layers of each stage; here as many, evenly spread");
  } else {
    to.set("training.recompute", layers > 1 ? "group_" + std::to_string(layers) : "full");
  }
}

Rule recompute_rule() {
  return {{"training.recompute", "training.recompute_fraction"},
          {"recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules",
           "recompute-activations", "checkpoint-activations", "activations-checkpoint-method",
           "activations-checkpoint-num-layers"},
          read_recompute,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            if (t.recompute == Recompute::none) return;
            if (t.recompute == Recompute::selective) {
              to.add("recompute-granularity", "selective");
              to.add("recompute-modules", json::array({"core_attn"}));
              return;
            }
            to.add("recompute-granularity", "full");
            to.add("recompute-method", "uniform");
            to.add("recompute-num-layers", t.recompute == Recompute::group ? t.recompute_group : 1);
          }};
}

// Returns the ZeRO stage of Megatron-DeepSpeed: of its file, or of --zero-stage. Nothing if
// DeepSpeed does not train.
std::optional<int> read_deepspeed_stage(Settings& from, JobDraft& to) {
  const bool trains = from.flag("deepspeed").value_or(false);
  from.flag("no-pipeline-parallel");
  const auto of_file = from.count("zero_optimization.stage", 0);
  const auto argument = from.count("zero-stage", 0);
  if (!trains && !of_file && !argument) return std::nullopt;
  if (!of_file && !argument) {
    to.ask("parallelism.zero_stage", "DeepSpeed trains, and its file is not given");
    return std::nullopt;
  }
  const std::int64_t stage = of_file.value_or(argument.value_or(0));
  if (of_file && argument && *of_file != *argument)
    to.remark(from.spelled("zero-stage") + " says stage " + std::to_string(*argument) +
              ", DeepSpeed's file " + std::to_string(*of_file) + ", which counts");
  if (stage > 3)
    from.fail(of_file ? "zero_optimization.stage" : "zero-stage",
              std::to_string(stage) + " is no stage; use 0 to 3");
  return static_cast<int>(stage);
}

void read_sharding(Settings& from, JobDraft& to) {
  const bool distributed = from.flag("use-distributed-optimizer").value_or(false);
  const bool megatron = from.flag("use-megatron-fsdp").value_or(false) ||
                        from.flag("use-custom-fsdp").value_or(false);
  const bool torch = from.flag("use-torch-fsdp2").value_or(false);
  const auto strategy = from.word("data-parallel-sharding-strategy",
                                  {"no_shard", "optim", "optim_grads", "optim_grads_params"});
  int stage = distributed ? 1 : 0;
  if (megatron) {
    const std::string word = strategy.value_or("no_shard");
    stage = word == "optim_grads_params" ? 3 : word == "optim_grads" ? 2 : word == "optim" ? 1 : 0;
  }
  if (torch) {
    stage = 3;
    const bool kept = from.flag("torch-fsdp2-no-reshard-after-forward").value_or(false);
    to.set("parallelism.reshard_after_forward", kept ? "never" : "always");
  }
  if (const auto stage_of_deepspeed = read_deepspeed_stage(from, to)) stage = *stage_of_deepspeed;
  to.set("parallelism.zero_stage", stage);
  to.set("parallelism.reduce_gradients", stage <= 1 ? "last" : "each");
  const std::int64_t copies = from.count("num-distributed-optimizer-instances").value_or(1);
  if (copies <= 1) return;
  const std::optional<int> ranks = to.ranks();
  if (!ranks)
    from.fail("num-distributed-optimizer-instances",
              "needs the number of GPUs; give --set cluster.machine and cluster.count");
  const std::int64_t model_ranks =
      to.count("parallelism.tensor") * to.count("parallelism.pipeline");
  const std::int64_t replicas = *ranks / model_ranks;
  if (replicas % copies != 0)
    from.fail("num-distributed-optimizer-instances", std::to_string(copies) + " does not divide " +
                                                         std::to_string(replicas) +
                                                         " data-parallel ranks");
  to.set("parallelism.shard", replicas / copies);
}

Rule sharding_rule() {
  return {
      {"parallelism.zero_stage", "parallelism.shard", "parallelism.reduce_gradients",
       "parallelism.reshard_after_forward"},
      {"use-distributed-optimizer", "num-distributed-optimizer-instances", "use-megatron-fsdp",
       "data-parallel-sharding-strategy", "use-torch-fsdp2", "torch-fsdp2-no-reshard-after-forward",
       "deepspeed", "zero-stage", "zero_optimization.stage", "no-pipeline-parallel"},
      read_sharding,
      [](const JobValues& from, Settings& to) {
        const Parallelism& p = from.plan.parallelism;
        if (p.zero_stage >= 1) to.add("use-distributed-optimizer", true);
        if (p.zero_stage >= 2) {
          to.add("use-megatron-fsdp", true);
          to.add("data-parallel-sharding-strategy",
                 p.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
        }
        if (p.shard > 1)
          to.add("num-distributed-optimizer-instances", p.data * p.context / p.shard);
      }};
}

Rule bucket_rule() {
  return {{"parallelism.reduce_bucket_bytes"},
          {"ddp-bucket-size"},
          [](Settings& from, JobDraft& to) {
            const auto elements = from.whole("ddp-bucket-size");
            if (to.number("parallelism.zero_stage", 0) >= 2) return;
            const std::int64_t bytes =
                to.value("training.gradient_reduce_precision") == "fp32" ? 4 : 2;
            if (elements) {
              to.set("parallelism.reduce_bucket_bytes", product({*elements, bytes}));
              return;
            }
            // Without a bucket size, megatron.core takes 40 M elements, or 1 M for each rank that
            // reduces if that is more.
            const std::int64_t ranks = to.ranks().value_or(1) / (to.count("parallelism.tensor") *
                                                                 to.count("parallelism.pipeline"));
            to.set("parallelism.reduce_bucket_bytes",
                   std::max<std::int64_t>(40'000'000, 1'000'000 * ranks) * bytes);
          },
          [](const JobValues& from, Settings& to) {
            if (from.plan.parallelism.zero_stage >= 2) return;
            to.add("ddp-bucket-size", from.plan.parallelism.reduce_bucket_bytes /
                                          bytes_of(from.plan.training.gradient_reduce));
          },
          "elements there, bytes here"};
}

Rule overlap_rule() {
  return {{"parallelism.overlap", "parallelism.tensor_chunks"},
          {"overlap-grad-reduce", "overlap-param-gather", "tp-comm-overlap",
           "overlap-dispatch-backward-with-experts-wgrad"},
          [](Settings& from, JobDraft& to) {
            json overlap = json::array();
            if (from.flag("overlap-grad-reduce").value_or(false)) overlap.push_back("gradients");
            if (from.flag("overlap-param-gather").value_or(false)) overlap.push_back("parameters");
            const std::int64_t tensor = to.count("parallelism.tensor");
            if (tensor > 1) overlap.push_back("tensor");
            if (from.flag("overlap-dispatch-backward-with-experts-wgrad").value_or(false))
              overlap.push_back("expert");
            to.set("parallelism.overlap", std::move(overlap));
            if (from.flag("tp-comm-overlap").value_or(false) && tensor > 1)
              to.set("parallelism.tensor_chunks", tensor);
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.overlap_gradients) to.add("overlap-grad-reduce", true);
            if (p.overlap_parameters) to.add("overlap-param-gather", true);
            if (p.tensor_chunks > 1) to.add("tp-comm-overlap", true);
            if (p.overlap_expert) to.add("overlap-dispatch-backward-with-experts-wgrad", true);
          },
          "the sum of an input's gradient always goes beside the weight's gradient"};
}

// Megatron splits experts by the whole tensor group unless it is told a degree.
Rule expert_tensor_rule() {
  return {{"parallelism.expert_tensor"},
          {"expert-tensor-parallel-size"},
          [](Settings& from, JobDraft& to) {
            const std::int64_t tensor = to.count("parallelism.tensor");
            const std::int64_t given = from.whole("expert-tensor-parallel-size").value_or(tensor);
            if (from.whole("num-experts").value_or(0) > 0 && tensor > 1)
              to.set("parallelism.expert_tensor", given);
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.tensor > 1 && p.expert_tensor > 0)
              to.add("expert-tensor-parallel-size", p.expert_tensor);
          },
          "1 or the tensor degree"};
}

Rule dispatch_rule() {
  return {
      {"parallelism.expert_dispatch"},
      {"moe-token-dispatcher-type", "moe-enable-deepep", "moe-flex-dispatcher-backend"},
      [](Settings& from, JobDraft& to) {
        from.flag("moe-enable-deepep");
        from.word("moe-flex-dispatcher-backend");
        if (from.word("moe-token-dispatcher-type").value_or("") == "flex")
          to.set("parallelism.expert_dispatch", "deduplicated");
      },
      [](const JobValues& from, Settings& to) {
        if (from.job.model.experts == 0) return;
        const bool once = from.plan.parallelism.expert_dispatch == ExpertDispatch::deduplicated;
        to.add("moe-token-dispatcher-type", once ? "flex" : "alltoall");
        if (once) to.add("moe-enable-deepep", true);
      },
      "flex (DeepEP, HybridEP) sends a token once to each host; allgather is taken as alltoall"};
}

Rule scatter_rule() {
  return {{"parallelism.sequence_parallel", "parallelism.pipeline_scatter_gather"},
          {"sequence-parallel"},
          [](Settings& from, JobDraft& to) {
            const bool asked = from.flag("sequence-parallel").value_or(false);
            const bool whole = to.count("parallelism.tensor") == 1;
            to.set("parallelism.sequence_parallel", asked && !whole);
            to.set("parallelism.pipeline_scatter_gather", asked || whole);
          },
          [](const JobValues& from, Settings& to) {
            if (from["parallelism.sequence_parallel"] == true) to.add("sequence-parallel", true);
          }};
}

Rule placement_rule() {
  return {{"parallelism.placement"},
          {"use-tp-pp-dp-mapping"},
          [](Settings& from, JobDraft& to) {
            to.set("parallelism.placement",
                   from.flag("use-tp-pp-dp-mapping").value_or(false) ? "DPT" : "PDT");
          },
          [](const JobValues& from, Settings& to) {
            if (from["parallelism.placement"] == "DPT") to.add("use-tp-pp-dp-mapping", true);
          },
          "without it the order is tensor, context, data, pipeline: PDT"};
}

Rule optimizer_rule() {
  return {
      {"training.optimizer", "training.master_weights", "training.moments_precision"},
      {"optimizer", "use-precision-aware-optimizer", "main-params-dtype", "main-grads-dtype",
       "exp-avg-dtype", "exp-avg-sq-dtype"},
      [](Settings& from, JobDraft& to) {
        const std::string name = from.word("optimizer", {"adam", "sgd"}).value_or("adam");
        to.set("training.optimizer", name == "adam" ? "adamw" : name);
        const bool aware = from.flag("use-precision-aware-optimizer").value_or(false);
        const std::string main = from.word("main-params-dtype").value_or("fp32");
        from.word("main-grads-dtype");
        const std::string first = from.word("exp-avg-dtype").value_or("fp32");
        const std::string second = from.word("exp-avg-sq-dtype").value_or("fp32");
        if (!aware) return;
        if (main != "fp32")
          from.fail("main-params-dtype", "'" + main +
                                             "': masters of other types than fp32 are "
                                             "not built");
        if (first != second || (first != "fp32" && first != "bf16"))
          from.fail("exp-avg-dtype", "moments of " + first + " and " + second +
                                         " are not built; both in fp32 or both in bf16 are");
        if (to.value("training.precision") != "fp16" && to.value("training.precision") != "fp32")
          to.set("training.master_weights", "remainders");
        to.set("training.moments_precision", first);
      },
      [](const JobValues& from, Settings& to) {
        to.add("optimizer", from["training.optimizer"] == "sgd" ? "sgd" : "adam");
        if (from["training.master_weights"] != "remainders") return;
        to.add("use-precision-aware-optimizer", true);
        to.add("main-params-dtype", "fp32");
        to.add("exp-avg-dtype", from["training.moments_precision"]);
        to.add("exp-avg-sq-dtype", from["training.moments_precision"]);
      },
      "the precision-aware optimizer keeps the 16 bits of fp32 that bf16 lacks, and rounds moments "
      "in bf16 to nearest"};
}

Rule dropout_rule() {
  return {{"training.dropout"},
          {"hidden-dropout", "attention-dropout"},
          [](Settings& from, JobDraft& to) {
            const double hidden = from.number("hidden-dropout").value_or(0.1);
            const double attention = from.number("attention-dropout").value_or(0.1);
            if (hidden != attention)
              to.remark(from.spelled("hidden-dropout") + " and " +
                        from.spelled("attention-dropout") + " differ; the first is taken");
            to.set("training.dropout", hidden);
          },
          [](const JobValues& from, Settings& to) {
            to.add("hidden-dropout", from["training.dropout"]);
            to.add("attention-dropout", from["training.dropout"]);
          }};
}

Rule attention_rule() {
  return {{"training.attention"},
          {"attention-backend", "use-flash-attn"},
          [](Settings& from, JobDraft& to) {
            const auto backend =
                from.word("attention-backend", {"auto", "flash", "fused", "unfused", "local"});
            const bool flash = from.flag("use-flash-attn").value_or(false);
            if (backend == "flash" || (!backend && flash)) to.set("training.attention", "flash2");
            if (backend == "fused") to.set("training.attention", "cudnn");
            if (backend == "unfused" || backend == "local") to.set("training.attention", "unfused");
          },
          [](const JobValues& from, Settings& to) {
            const json kernel = from["training.attention"];
            to.add("attention-backend", kernel == "cudnn"     ? "fused"
                                        : kernel == "unfused" ? "unfused"
                                                              : "flash");
          }};
}

Rule graph_rule() {
  return {{"training.cuda_graph"},
          {"cuda-graph-impl", "enable-cuda-graph", "external-cuda-graph"},
          [](Settings& from, JobDraft& to) {
            const auto way = from.word("cuda-graph-impl",
                                       {"none", "local", "transformer_engine", "full_iteration"});
            const bool old = from.flag("enable-cuda-graph").value_or(false) ||
                             from.flag("external-cuda-graph").value_or(false);
            if (way) to.set("training.cuda_graph", way != "none");
            if (!way && old) to.set("training.cuda_graph", true);
          },
          [](const JobValues& from, Settings& to) {
            if (!from["training.cuda_graph"].is_null())
              to.add("cuda-graph-impl", from["training.cuda_graph"] == true ? "local" : "none");
          }};
}

// Reads the two levels of a context group: the number of ranks that exchange heads in an
// all-to-all, and the number of ranks in a ring over such groups.
void read_levels(Settings& from, JobDraft& to, std::int64_t context) {
  constexpr std::string_view name = "hierarchical-context-parallel-sizes";
  const std::vector<std::int64_t> sizes = from.wholes(name);
  const bool is_pair = sizes.size() == 2 && std::min(sizes[0], sizes[1]) > 0;
  if (!is_pair || context % sizes[0] != 0 || context / sizes[0] != sizes[1])
    from.fail(name,
              "'a2a+p2p' needs two sizes, of exchanges of heads and of rings, whose product "
              "is the " +
                  std::to_string(context) + " context ranks");
  const bool rings = sizes[1] > 1, exchanges = sizes[0] > 1;
  to.set("parallelism.context_exchange", !rings ? "all_to_all" : !exchanges ? "p2p" : "a2a+p2p");
  if (rings && exchanges) to.set("parallelism.context_heads", sizes[0]);
}

Rule context_rule() {
  return {{"parallelism.context_exchange", "parallelism.context_heads"},
          {"cp-comm-type", "hierarchical-context-parallel-sizes", "ds-sequence-parallel-size"},
          [](Settings& from, JobDraft& to) {
            // Ulysses: the ranks that share sequences exchange heads.
            if (const auto ranks = from.count("ds-sequence-parallel-size"); ranks && *ranks > 1) {
              to.set("parallelism.context", *ranks);
              to.set("parallelism.context_exchange", "all_to_all");
            }
            const auto words = from.words("cp-comm-type");
            const auto context = to.count("parallelism.context");
            if (words.size() == 1 && words[0] == "a2a+p2p" && context > 1)
              return read_levels(from, to, context);
            from.read("hierarchical-context-parallel-sizes");  // of a2a+p2p alone
            if (words.empty()) return;
            const bool exchanges_heads = words[0] == "a2a";
            if (words.size() > 1 || !(exchanges_heads || words[0] == "p2p" ||
                                      words[0] == "all_gather" || words[0] == "a2a+p2p"))
              from.fail("cp-comm-type", "'" + list_of(words, "and") +
                                            "' is not built; p2p, all_gather, a2a and a2a+p2p are");
            if (context > 1)
              to.set("parallelism.context_exchange", exchanges_heads ? "all_to_all" : words[0]);
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.context == 1) return;
            if (p.context_exchange == ContextExchange::all_to_all)
              to.add("cp-comm-type", "a2a");
            else
              to.add("cp-comm-type", from["parallelism.context_exchange"]);
            if (p.has_two_exchanges())
              to.add("hierarchical-context-parallel-sizes",
                     json::array({p.context_heads, p.context / p.context_heads}));
          }};
}

}  // namespace

const Rules& megatron_rules() {
  static const Rules rules = {
      cluster_sizes_rule(),
      megatron_model_rule(),
      whole_rule("training.global_batch", "global-batch-size"),
      whole_rule("training.micro_batch", "micro-batch-size"),
      whole_rule("training.sequence_length", "seq-length"),
      precision_rule(),
      loss_scale_rule(),
      reduce_precision_rule(),
      whole_rule("parallelism.tensor", "tensor-model-parallel-size"),
      megatron_stages_rule(),
      whole_rule("parallelism.context", "context-parallel-size"),
      context_rule(),
      whole_rule("parallelism.expert", "expert-model-parallel-size"),
      expert_tensor_rule(),
      dispatch_rule(),
      scatter_rule(),
      sharding_rule(),
      bucket_rule(),
      overlap_rule(),
      placement_rule(),
      recompute_rule(),
      attention_rule(),
      optimizer_rule(),
      steps_rule(),
      number_rule("training.learning_rate", "lr"),
      words_rule("training.learning_rate_schedule", "lr-decay-style",
                 {{"constant", "constant"}, {"linear", "linear"}, {"cosine", "cosine"}}, "linear"),
      warmup_rule(),
      number_rule("training.weight_decay", "weight-decay", 0.01),
      number_rule("training.gradient_clip", "clip-grad", 1.0),
      number_rule("training.beta1", "adam-beta1"),
      number_rule("training.beta2", "adam-beta2"),
      number_rule("training.epsilon", "adam-eps"),
      number_rule("training.momentum", "sgd-momentum"),
      dropout_rule(),
      whole_rule("training.seed", "seed", 1234),
      off_rule("training.fuse_gradient_accumulation", "no-gradient-accumulation-fusion"),
      loss_rule(),
      tokens_ahead_rule(),
      flag_rule("training.deterministic", "deterministic-mode"),
      graph_rule(),
  };
  return rules;
}

}  // namespace meshwright::interop
