// Defines the target HyperPod: a recipe, and the model's config.json.
#include "models/architectures/huggingface_config.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/hyperpod/hyperpod.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view logs = "logging; `log` says what train writes here";
constexpr std::string_view saves =
    "checkpoints of its own; `checkpoint` says when train saves here";
constexpr std::string_view data = "data; `data` says what train reads here";
constexpr std::string_view service = "the service's; it changes no plan";
constexpr std::string_view kernels = "a choice that predictions do not tell apart";
constexpr std::string_view shown = "evaluation between steps, which predictions leave out";
constexpr std::string_view values = "initial values of weights";

constexpr WithoutMeaning rows[] = {
    {"name", service},
    {"run.*", service},
    {"version", service},
    {"display_name", service},
    {"resources.*", service},
    {"pre_script", service},
    {"post_script", service},
    {"env_vars.*", service},
    {"cluster.*", service},
    {"cluster_type", service},
    {"container", service},
    {"git.*", service},
    {"launcher_scripts_path", service},
    {"base_results_dir", service},
    {"defaults", service},
    {"elastic_policy.*", service},
    {"scale_config*", "other sizes of the same recipe"},
    {"training_config.datasets*", data},
    {"training_config.dataset*", data},
    {"training_config.force_rerun", service},
    {"training_config.mlflow.*", logs},
    {"training_config.model_config.peft_config", "says null: all parameters are trained"},
    {"training_config.model_config.*", data},
    {"training_config.training_args.strategy.fsdp_config.*", "how FSDP works in detail"},
    {"training_config.training_args.trainer_callbacks*", logs},
    {"training_config.training_args.max_epochs", "training.steps counts steps"},
    {"training_config.training_args.save_*", saves},
    {"training_config.training_args.load_checkpoint", saves},
    {"training_config.training_args.resume_*", saves},
    {"training_config.training_args.max_ckpt_*", saves},
    {"training_config.training_args.disable_*", saves},
    {"training_config.training_args.merge_weights", saves},
    {"training_config.training_args.override_training_dir", saves},
    {"training_config.training_args.training_dir", saves},
    {"training_config.training_args.logging_steps", logs},
    {"training_config.training_args.use_*", logs},
    {"training_config.training_args.eval_*", shown},
    {"training_config.training_args.max_samples", data},
    {"training_config.training_args.packing_samples", data},
    {"training_config.training_args.pretrain_mode", data},
    {"training_config.training_args.gradient_checkpointing_*", kernels},
    {"training_config.training_args.grad_accum_dtype", kernels},
    {"training_config.training_args.l2", "weight_decay says it"},
    {"training_config.training_args.aux_loss_coef", "costs next to nothing"},
    {"training_config.training_args.*_coef", "costs next to nothing"},
    {"exp_manager.*", saves},
    {"log.*", logs},
    {"log_dir", logs},
    {"log_perf_metrics", logs},
    {"resume.*", saves},
    {"mmap.*", data},
    {"dataset.*", data},
    {"data.*", data},
    {"callbacks", service},
    {"model.data.*", data},
    {"model.tokenizer.*", data},
    {"model.val_batch_size", shown},
    {"model.log_reduced_training_loss", logs},
    {"model.do_finetune", values},
    {"model.hf_model_name_or_path", values},
    {"model.hf_access_token", values},
    {"model.initializer_range", values},
    {"model.init_method_std", values},
    {"model.use_scaled_init_method", values},
    {"model.rope_scaling.*", "changes angles, not costs"},
    {"model.multi_modal", "text alone is predicted"},
    {"model.delayed_param", "ranks only ever make the parameters that they hold"},
    {"model.fsdp", "always on in such recipes"},
    {"model.forward_prefetch", "gathers go beside compute where they can"},
    {"model.backward_fetch_policy", "gathers go beside compute where they can"},
    {"model.limit_all_gathers", "two units are gathered at once"},
    {"model.auto_wrap_policy", "a block is a unit"},
    {"model.use_orig_param", kernels},
    {"model.fp8_*", "scales of `delayed` come from the last 1024 steps here"},
    {"model.lr_decay_iters", "the rate falls until training.steps here"},
    {"model.optim.sched.min_lr", "learning rates fall to 0 here"},
    {"model.optim.sched.constant_steps", "the rate falls from the end of the warm-up here"},
    {"optim.lr_scheduler.min_lr", "learning rates fall to 0 here"},
    {"optim.lr_scheduler.constant_steps", "the rate falls from the end of the warm-up here"},
    {"optim.*._target_", kernels},
    {"optim.config._target_", kernels},
    {"model.peft.*", "of adapters that are not used, or how they begin"},
    {"model.viztracer.*", logs},
    {"model.nsys_profile.*", logs},
    {"model.gpu_affinity.*", kernels},
    {"model.moe_load_balancing", "the balancing loss has one kind here"},
    {"model.global_token_shuffle", "tokens stay with their sequence here"},
    {"model.moe_all_to_all_dispatcher", "tokens travel all-to-all here"},
    {"distributed_backend", "NCCL's collectives take the place of SageMaker's own"},
    {"trainer.accelerator", service},
    {"trainer.log_every_n_steps", logs},
    {"trainer.val_check_interval", shown},
    {"trainer.limit_*", shown},
    {"trainer.num_sanity_val_steps", shown},
    {"trainer.reload_dataloaders_every_n_epochs", data},
    {"trainer.use_distributed_sampler", data},
    {"trainer.max_epochs", "training.steps counts steps"},
    {"trainer.max_time", service},
    {"trainer.logger", logs},
    {"trainer.enable_checkpointing", saves},
    {"trainer.accumulate_grad_batches", "micro-batches follow from both batch sizes"},
    {"strategy.ckpt_*", saves},
    {"strategy.gradient_as_bucket_view", kernels},
    {"strategy.pipeline_dtype", "stages send what activations are stored in"},
    {"ddp.average_in_collective", kernels},
    {"ddp.check_for_nan_in_grad", "checks, which change no plan"},
    {"ddp.suggested_communication_unit_size", kernels},
    {"plugins.*", kernels},
    {"model.config.vocab_size", "the model says it"},
    {"model.config.add_bias_linear", "the model says it"},
    {"model.mcore_gpt", kernels},
    {"model.attention_dropout", "one dropout for all here"},
    {"model.ffn_dropout", "one dropout for all here"},
    {"model.kv_channels", "hidden size / heads"},
    {"model.rampup_batch_size", "the full batch is planned"},
    {"model.apply_*", kernels},
    {"model.do_layer_norm_weight_decay", "matrices alone decay here"},
    {"model.make_vocab_size_divisible_by", "the vocabulary is padded to 128 x tensor here"},
    {"model.p*_process", kernels},
    {"model.pre_process", kernels},
    {"model.post_process", kernels},
    {"model.persist_layer_norm", kernels},
    {"model.headscale", kernels},
    {"model.transformer_block_type", kernels},
    {"model.openai_gelu", kernels},
    {"model.normalize_attention_scores", kernels},
    {"model.position_embedding_type", "Llama's, rope"},
    {"model.rotary_percentage", "Llama's, 1"},
    {"model.cross_entropy_loss_fusion", kernels},
    {"model.attention_type", kernels},
    {"model.scale_positional_embedding", kernels},
    {"model.native_amp_*", "of fp16"},
    {"model.hysteresis", "of fp16"},
    {"model.fp32_residual_connection", kernels},
    {"model.fp16_lm_cross_entropy", kernels},
    {"model.megatron_amp_O2", "masters are kept in fp32 here"},
    {"model.grad_*", kernels},
    {"model.gradient_*", kernels},
    {"model.bias_*", kernels},
    {"model.masked_softmax_fusion", kernels},
    {"model.resume_from_checkpoint", saves},
    {"model.use_cpu_initialization", values},
    {"model.onnx_safe", kernels},
    {"model.apex_transformer_log_level", logs},
    {"model.sync_batch_comm", kernels},
    {"model.num_micro_batches_with_partial_activation_checkpoints", kernels},
    {"model.activations_checkpoint_layers_per_pipeline", kernels},
    {"model.deterministic_mode", kernels},
    {"model.transformer_engine", kernels},
    {"model.use_emha", kernels},
    {"model.ub_tp_comm_overlap", "how tensor communication is cut in detail"},
    {"model.use_flash_attention", kernels},
    {"model.optim.bucket_cap_mb", kernels},
    {"model.optim.contiguous_*", kernels},
};

std::vector<ExportedFile> files(const JobValues& job, const Settings& settings) {
  return {{"recipe.yaml", yaml_text(settings)},
          {"config.json", huggingface_config(job.model).dump(2) + "\n"}};
}

// Returns the launch of the training adapter's program. It is started directly, as the recipes' own
// launcher does.
Launch launch(const JobValues& job, const Settings&) {
  Launch launch = launch_of(job);
  launch.words = {job.model.experts > 0 ? "examples/mixtral/mixtral_pretrain.py"
                                        : "examples/llama/llama_pretrain.py",
                  "--config-path", LaunchWord::expression("$PWD"), "--config-name", "recipe.yaml"};
  return launch;
}

}  // namespace

const InteropTarget hyperpod_target = {
    Framework::hyperpod, "SageMaker HyperPod, a recipe", hyperpod_rules, rows, files, launch,
    refuse_other_recipes};

}  // namespace meshwright::interop
