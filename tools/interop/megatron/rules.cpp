// Translates between Megatron-LM's arguments and the keys of the job file. Names and defaults:
// megatron/training/arguments.py and the dataclasses of megatron.core (0.16).
#include <algorithm>
#include <cmath>

#include "models/compiler/frameworks/stages.h"
#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/launch/cluster_rule.h"
#include "tools/interop/megatron/llama_factory.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/model_names.h"

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

Rule schedule_rule() {
  return {{"training.learning_rate_schedule"},
          {"lr-decay-style"},
          [](Settings& from, JobDraft& to) {
            std::string word = from.word("lr-decay-style", {"constant", "linear", "cosine",
                                                            "inverse-square-root", "WSD"})
                                   .value_or("linear");
            if (word == "WSD" || word == "inverse-square-root") {
              to.remark(from.spelled("lr-decay-style") + " " + word +
                        ": no such schedule is built; the rate is constant here");
              word = "constant";
            }
            to.set("training.learning_rate_schedule", word);
          },
          [](const JobValues& from, Settings& to) {
            to.add("lr-decay-style", from["training.learning_rate_schedule"]);
          }};
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
            const std::string chosen = to.word("training.precision", "");  // by --set too
            if (chosen != "fp8" && chosen != "nvfp4") return;
            if (leaves && first > 0) to.set("training.first_layers_in_bf16", first);
            if (leaves && last > 0) to.set("training.last_layers_in_bf16", last);
            if (format) to.set("training.fp8_recipe", recipe.value_or("delayed"));
            // Only experts with a fixed capacity compute in FP8 here. Those without a limit on
            // their tokens do not.
            const json model = to.value("model");
            if (model.is_object() && model.contains("num_local_experts") &&
                model.contains("expert_capacity_factor"))
              to.set("training.fp8_experts", true);
            else if (experts_of(to) > 1)
              to.remark(from.spelled(fp4 ? "fp4-format" : "fp8-format") +
                        ": experts that take all their tokens multiply in 16 bits here, and time "
                        "is predicted so; --set model.expert_capacity_factor=1 and --set "
                        "training.fp8_experts=true plan slots of equal use in 8 bits");
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

// Returns the loss scale that the section fp16 of a DeepSpeed configuration gives. A loss_scale of
// 0 means a dynamic scale (deepspeed/runtime/fp16/loss_scaler.py).
json loss_scale_of_deepspeed(Settings& from) {
  const double fixed = from.number("fp16.loss_scale").value_or(0);
  const json moving = {{"initial", std::exp2(from.number("fp16.initial_scale_power").value_or(16))},
                       {"minimum", from.number("fp16.min_loss_scale").value_or(1)},
                       {"window", from.whole("fp16.loss_scale_window").value_or(1000)},
                       {"hysteresis", from.whole("fp16.hysteresis").value_or(2)}};
  return fixed > 0 ? json{{"static", fixed}} : moving;
}

Rule loss_scale_rule() {
  return {{"training.loss_scale"},
          {"loss-scale", "initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis",
           "fp16.loss_scale", "fp16.initial_scale_power", "fp16.min_loss_scale",
           "fp16.loss_scale_window", "fp16.hysteresis"},
          [](Settings& from, JobDraft& to) {
            const auto fixed = from.number("loss-scale");
            json moving = {{"initial", from.number("initial-loss-scale").value_or(4294967296.0)},
                           {"minimum", from.number("min-loss-scale").value_or(1)},
                           {"window", from.whole("loss-scale-window").value_or(1000)},
                           {"hysteresis", from.whole("hysteresis").value_or(2)}};
            if (to.value("training.precision") != "fp16") return;
            if (from.flag("fp16.enabled").value_or(false))
              return to.set("training.loss_scale", loss_scale_of_deepspeed(from));
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
            // Gradients that the precision-aware optimizer keeps in bf16 are reduced in bf16.
            const bool in_bf16 = from.flag("grad-reduce-in-bf16").value_or(false) ||
                                 (from.flag("use-precision-aware-optimizer").value_or(false) &&
                                  from.word("main-grads-dtype").value_or("fp32") == "bf16");
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
  // checkpoint-* and activations-checkpoint-* are older names of the arguments recompute-*, which
  // Megatron-LM has had since spring 2022.
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

Rule optimizer_rule() {
  return {
      {"training.optimizer", "training.master_weights", "training.moments_precision",
       "training.momentum", "parallelism.shard_layout"},
      {"optimizer", "use-precision-aware-optimizer", "main-params-dtype", "main-grads-dtype",
       "exp-avg-dtype", "exp-avg-sq-dtype", "use-bnb-optimizer", "muon-momentum"},
      [](Settings& from, JobDraft& to) {
        const std::string name =
            from.word("optimizer", {"adam", "sgd", "muon", "dist_muon"}).value_or("adam");
        const bool is_muon = name == "muon" || name == "dist_muon";
        to.set("training.optimizer", is_muon ? "muon" : name == "adam" ? "adamw" : name);
        if (is_muon) to.set("training.momentum", from.number("muon-momentum").value_or(0.95));
        // The distributed one shares out whole matrices. It does that without
        // --use-distributed-optimizer too.
        if (is_muon && to.number("parallelism.zero_stage", 0) == 1)
          to.set("parallelism.shard_layout", "whole");
        else if (name == "dist_muon")
          to.remark(from.spelled("optimizer") +
                    " dist_muon shares out the states of whole matrices; here every replica keeps "
                    "all of its own, and memory is predicted so");
        if (from.flag("use-bnb-optimizer").value_or(false))  // bigscience's fork has it
          to.set("training.moments_precision", "8bit");
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

}  // namespace

const Rules& megatron_rules() {
  static const Rules rules = [] {
    Rules all = {
        cluster_sizes_rule(),
        named_model_rule(),
        megatron_model_rule(),
        whole_rule("training.global_batch", "global-batch-size"),
        whole_rule("training.micro_batch", "micro-batch-size"),
        whole_rule("training.sequence_length", "seq-length"),
        precision_rule(),
        loss_scale_rule(),
        reduce_precision_rule(),
    };
    const Rules degrees = megatron_parallelism_rules();
    all.insert(all.end(), degrees.begin(), degrees.end());
    const Rules others = {
        accumulation_rule(),
        adapters_rule(),
        recompute_rule(),
        attention_rule(),
        optimizer_rule(),
        steps_rule(),
        number_rule("training.learning_rate", "lr"),
        schedule_rule(),
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
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }();
  return rules;
}

}  // namespace meshwright::interop
