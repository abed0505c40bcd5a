// Reads recipes that start NeMo: those of version 2 (`strategy`, `ddp`, `optim.config`) and those
// of the first launcher (`model.micro_batch_size`). Megatron-Core runs both.

#include "models/core/error.h"
#include "tools/interop/hyperpod/hyperpod.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

// Returns the first of two values that is present. The two kinds of recipes have different names
// for the same setting.
template <class T>
std::optional<T> first_of(std::optional<T> one, std::optional<T> other) {
  return one ? one : other;
}

std::int64_t degree(Settings& from, const std::string& name) {
  return first_of(from.count("strategy." + name), from.count("model." + name)).value_or(1);
}

void read_nemo_batch(Settings& from, JobDraft& to) {
  for (const auto& [key, names] :
       {std::pair{"training.global_batch",
                  std::pair{"data.global_batch_size", "model.global_batch_size"}},
        std::pair{"training.micro_batch",
                  std::pair{"data.micro_batch_size", "model.micro_batch_size"}}})
    if (const auto value = first_of(from.whole(names.first), from.whole(names.second)))
      to.set(key, *value);
  const auto of_model =
      first_of(from.whole("model.config.seq_length"), from.whole("model.encoder_seq_length"));
  const Setting* given = from.read("data.seq_length");
  from.read("model.data.seq_length");  // repeats another setting
  if (given != nullptr && given->value.is_number())
    to.set("training.sequence_length", *from.whole("data.seq_length"));
  else if (of_model)
    to.set("training.sequence_length", *of_model);
}

// Checks the sizes that a recipe repeats against the model that it names.
void check_nemo_sizes(Settings& from, const JobDraft& to) {
  const auto check = [&](const char* name, std::int64_t has) {
    const std::optional<std::int64_t> says = from.whole(name);
    if (says && has > 0 && *says != has)
      from.fail(name, std::to_string(*says) + ", but the named model has " + std::to_string(has) +
                          "; give the config.json of the model beside the recipe");
  };
  check("model.config.num_layers", to.model_layers());
  check("model.config.num_moe_experts", experts_of(to));
}

void read_nemo_precision(Settings& from, JobDraft& to) {
  const std::string type = first_of(from.word("plugins.precision"), from.word("trainer.precision"))
                               .value_or("bf16-mixed");
  const bool fp8 = from.flag("model.fp8").value_or(false);
  from.flag("optim.config.bf16");
  from.flag("optim.config.fp16");
  const std::string word = type.starts_with("bf16") ? (fp8 ? "fp8" : "bf16")
                           : type.starts_with("16") ? "fp16"
                                                    : "fp32";
  to.set("training.precision", word);
  if (fp8) to.set("training.fp8_recipe", "delayed");
  if (const auto fused = from.flag("model.config.cross_entropy_loss_fusion"))
    to.set("training.cross_entropy_fusion", *fused);
  if (from.flag("model.config.deterministic_mode").value_or(false))
    to.set("training.deterministic", true);
  const bool in_fp32 = from.flag("ddp.grad_reduce_in_fp32").value_or(true);
  to.set("training.gradient_reduce_precision", in_fp32 || word == "fp32" ? "fp32"
                                               : word == "fp16"          ? "fp16"
                                                                         : "bf16");
}

void read_nemo_degrees(Settings& from, JobDraft& to) {
  const std::int64_t tensor = degree(from, "tensor_model_parallel_size");
  const std::int64_t pipeline = degree(from, "pipeline_model_parallel_size");
  const std::int64_t stages = degree(from, "virtual_pipeline_model_parallel_size");
  to.set("parallelism.tensor", tensor);
  to.set("parallelism.pipeline", pipeline);
  to.set("parallelism.context", degree(from, "context_parallel_size"));
  to.set("parallelism.expert", degree(from, "expert_model_parallel_size"));
  to.set("parallelism.virtual_stages", stages);
  to.set("parallelism.schedule", stages > 1 ? "interleaved" : "1f1b");
  to.set("parallelism.partition", "even");
  to.set("parallelism.placement", "PDT");
  const bool sequence =
      first_of(from.flag("strategy.sequence_parallel"), from.flag("model.sequence_parallel"))
          .value_or(false);
  to.set("parallelism.sequence_parallel", sequence && tensor > 1);
  to.set("parallelism.pipeline_scatter_gather", sequence || tensor == 1);
}

void read_nemo_sharding(Settings& from, JobDraft& to) {
  const bool sharded = from.flag("optim.config.use_distributed_optimizer")
                           .value_or(from.word("model.optim.name") == "distributed_fused_adam");
  to.set("parallelism.zero_stage", sharded ? 1 : 0);
  to.set("parallelism.reduce_gradients", "last");
  // Gathers of parameters overlap with compute only if reductions of gradients do, so gradients
  // overlap by default if parameters do.
  const bool parameters =
      first_of(from.flag("ddp.overlap_param_gather"), from.flag("model.optim.overlap_param_sync"))
          .value_or(false) &&
      sharded;
  const bool gradients =
      first_of(from.flag("ddp.overlap_grad_reduce"), from.flag("model.optim.overlap_grad_sync"))
          .value_or(parameters);
  json overlap = json::array();
  if (gradients) overlap.push_back("gradients");
  if (parameters) overlap.push_back("parameters");
  const std::int64_t model_ranks =
      to.count("parallelism.tensor") * to.count("parallelism.pipeline");
  if (to.count("parallelism.tensor") > 1) overlap.push_back("tensor");
  to.set("parallelism.overlap", std::move(overlap));
  const std::int64_t copies =
      from.count("strategy.num_distributed_optimizer_instances").value_or(1);
  const std::optional<int> ranks = to.ranks();
  if (!sharded || copies <= 1 || !ranks) return;
  const std::int64_t replicas = *ranks / model_ranks;
  if (replicas % copies != 0)
    from.fail("strategy.num_distributed_optimizer_instances",
              std::to_string(copies) + " does not divide " + std::to_string(replicas) +
                  " data-parallel ranks");
  to.set("parallelism.shard", replicas / copies);
}

void read_nemo_recompute(Settings& from, JobDraft& to) {
  const auto granularity = first_of(from.word("model.config.recompute_granularity"),
                                    from.word("model.activations_checkpoint_granularity"));
  const std::int64_t layers = first_of(from.whole("model.config.recompute_num_layers"),
                                       from.whole("model.activations_checkpoint_num_layers"))
                                  .value_or(1);
  first_of(from.word("model.config.recompute_method"),
           from.word("model.activations_checkpoint_method"));
  const std::vector<std::string> modules = from.words("model.config.recompute_modules");
  std::vector<std::string> others;
  for (const std::string& module : modules)
    if (module != "core_attn") others.push_back(module);
  if (granularity == "selective" && !others.empty())
    to.remark(from.spelled("model.config.recompute_modules") + " " + list_of(others, "and") +
              ": recomputation of such modules is not predicted; memory is taken for them");
  const bool keeps_attention = !modules.empty() && others.size() == modules.size();
  to.set("training.recompute", !granularity ? "none"
                               : granularity == "selective"
                                   ? (keeps_attention ? "none" : "selective")
                               : layers > 1 ? "group_" + std::to_string(layers)
                                            : "full");
}

void read_nemo_optimizer(Settings& from, JobDraft& to) {
  const auto name = first_of(from.word("optim.config.optimizer"), from.word("model.optim.name"));
  if (name && name->find("adam") == std::string::npos && *name != "sgd")
    from.fail(from.has("optim.config.optimizer") ? "optim.config.optimizer" : "model.optim.name",
              "'" + *name + "' is not built; adam and sgd are");
  to.set("training.optimizer", name == "sgd" ? "sgd" : "adamw");
  const auto set = [&](const char* key, std::optional<double> value) {
    if (value) to.set(key, *value);
  };
  set("training.learning_rate",
      first_of(from.number("optim.config.lr"), from.number("model.optim.lr")));
  set("training.weight_decay",
      first_of(from.number("optim.config.weight_decay"), from.number("model.optim.weight_decay")));
  set("training.beta1", from.number("optim.config.adam_beta1"));
  set("training.beta2", from.number("optim.config.adam_beta2"));
  set("training.epsilon", from.number("optim.config.adam_eps"));
  set("training.gradient_clip",
      first_of(from.number("optim.config.clip_grad"), from.number("trainer.gradient_clip_val")));
  if (const Setting* betas = from.read("model.optim.betas");
      betas != nullptr && betas->value.is_array() && betas->value.size() == 2) {
    to.set("training.beta1", betas->value[0]);
    to.set("training.beta2", betas->value[1]);
  }
  const auto steps = first_of(from.whole("optim.lr_scheduler.warmup_steps"),
                              from.whole("model.optim.sched.warmup_steps"));
  if (steps) to.set("training.warmup_steps", *steps);
  const auto kind =
      first_of(from.word("optim.lr_scheduler._target_"), from.word("model.optim.sched.name"));
  if (kind && kind->find("Cosine") != std::string::npos)
    to.set("training.learning_rate_schedule", "cosine");
  if (const auto seed = from.whole("model.seed")) to.set("training.seed", *seed);
  if (const auto dropout = from.number("model.hidden_dropout"))
    to.set("training.dropout", *dropout);
}

}  // namespace

Rule nemo_rule() {
  return {{"training", "parallelism"},
          {"data.global_batch_size", "data.micro_batch_size", "data.seq_length",
           "strategy.tensor_model_parallel_size", "strategy.pipeline_model_parallel_size",
           "strategy.virtual_pipeline_model_parallel_size", "strategy.context_parallel_size",
           "strategy.expert_model_parallel_size", "strategy.sequence_parallel",
           "strategy.num_distributed_optimizer_instances", "plugins.precision",
           "ddp.grad_reduce_in_fp32", "ddp.overlap_grad_reduce", "ddp.overlap_param_gather",
           "optim.config.use_distributed_optimizer", "optim.config.lr"},
          [](Settings& from, JobDraft& to) {
            if (!is_other_program(from) || is_fine_tuning_recipe(from)) return;
            check_nemo_sizes(from, to);
            read_nemo_batch(from, to);
            read_nemo_precision(from, to);
            read_nemo_degrees(from, to);
            read_nemo_sharding(from, to);
            read_nemo_recompute(from, to);
            read_nemo_optimizer(from, to);
          },
          nullptr,
          "recipes that start NeMo; read only (`--for megatron-bridge` writes such settings)"};
}

}  // namespace meshwright::interop
