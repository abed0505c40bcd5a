// Defines the target Megatron-LM, whose settings file is the list of arguments.
#include "models/core/quote.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view data = "data and tokenizer; `data` says what train reads here";
constexpr std::string_view logs = "logging; `log` says what train writes here";
constexpr std::string_view saves =
    "checkpoints of its own; `checkpoint` says when train saves here";
constexpr std::string_view checks = "checks and profiling, which change no plan";
constexpr std::string_view values = "initial values of weights";
constexpr std::string_view start = "how processes meet";
constexpr std::string_view kernels = "a choice among kernels that predictions do not tell apart";
constexpr std::string_view biases =
    "costs next to nothing; `training.router_bias_update_rate` of a model that has such biases";
constexpr std::string_view ours = "how DeepSpeed works in detail";
constexpr std::string_view shown = "evaluation between steps, which predictions leave out";

constexpr WithoutMeaning rows[] = {
    {"data-path", data},
    {"train-data-path", data},
    {"valid-data-path", data},
    {"test-data-path", data},
    {"data-args-path", data},
    {"per-split-data-args-path", data},
    {"data-cache-path", data},
    {"data-impl", data},
    {"mock-data", data},
    {"split", data},
    {"vocab-file", data},
    {"merge-file", data},
    {"tokenizer-*", data},
    {"tiktoken-*", data},
    {"num-workers", data},
    {"dataloader-type", data},
    {"no-create-attention-mask-in-dataloader", data},
    {"no-mmap-bin-files", data},
    {"reset-*", data},
    {"eod-mask-loss", data},
    {"mmap-warmup", data},
    {"num-dataset-builder-threads", data},
    {"make-vocab-size-divisible-by", "the vocabulary is padded to 128 x tensor here"},
    {"log-*", logs},
    {"no-log-*", logs},
    {"tensorboard-*", logs},
    {"wandb-*", logs},
    {"timing-log-*", logs},
    {"no-barrier-with-level-1-timing", logs},
    {"one-logger-*", logs},
    {"no-one-logger", logs},
    {"enable-one-logger", logs},
    {"logging-level", logs},
    {"save", saves},
    {"save-*", saves},
    {"load", saves},
    {"no-load-*", saves},
    {"no-save-*", saves},
    {"finetune", saves},
    {"ckpt-*", saves},
    {"async-save", saves},
    {"use-dist-ckpt*", saves},
    {"dist-ckpt-*", saves},
    {"auto-detect-ckpt-format", saves},
    {"pretrained-checkpoint", saves},
    {"exit-on-missing-checkpoint", saves},
    {"use-checkpoint-args",
     "the checkpoint's shape is not known here: the model is that of the arguments, which the "
     "checkpoint's would replace"},
    {"use-checkpoint-*", saves},
    {"override-opt*", saves},
    {"use-persistent-ckpt-worker", saves},
    {"non-persistent-*", saves},
    {"eval-*", shown},
    {"full-validation", shown},
    {"skip-train", shown},
    {"test-mode", shown},
    {"profile*", checks},
    {"use-pytorch-profiler", checks},
    {"record-memory-history", checks},
    {"memory-snapshot-path", checks},
    {"no-check-for-nan-in-loss-and-grad", checks},
    {"check-for-nan-in-loss-and-grad", checks},
    {"check-*", checks},
    {"rerun-*", checks},
    {"manual-gc*", checks},
    {"exit-*", checks},
    {"enable-ft-package", checks},
    {"disable-straggler-on-startup", checks},
    {"init-method-*", values},
    {"embedding-init-method-std", values},
    {"use-cpu-initialization", values},
    {"no-initialization", values},
    {"init-model-with-meta-device", values},
    {"data-parallel-random-init", values},
    {"min-lr", "learning rates fall to 0 here"},
    {"lr-decay-iters", "the rate falls until training.steps here"},
    {"lr-decay-samples", "the rate falls until training.steps here"},
    {"lr-warmup-init", "the warm-up begins at 0 here"},
    {"lr-wsd-*", "no such schedule is built"},
    {"rampup-batch-size", "the full batch is planned"},
    {"decoupled-*", "one learning rate for all parameters here"},
    {"start-weight-decay", "weight decay is constant here"},
    {"end-weight-decay", "weight decay is constant here"},
    {"weight-decay-incr-style", "weight decay is constant here"},
    {"distributed-*", start},
    {"use-gloo-process-groups", start},
    {"disable-gloo-process-groups", start},
    {"enable-gloo-process-groups", start},
    {"local-rank", start},
    {"lazy-mpu-init", start},
    {"use-mcore-models", "the only models there are"},
    {"use-legacy-models", kernels},
    {"transformer-impl", kernels},
    {"spec", kernels},
    {"no-masked-softmax-fusion", kernels},
    {"no-bias-*", kernels},
    {"bias-*", kernels},
    {"no-rope-fusion", kernels},
    {"apply-rope-fusion", kernels},
    {"no-persist-layer-norm", kernels},
    {"cross-entropy-fusion-impl", kernels},
    {"enable-experimental", kernels},
    {"attention-softmax-in-fp32", kernels},
    {"no-query-key-layer-scaling", kernels},
    {"apply-query-key-layer-scaling", kernels},
    {"te-rng-tracker", kernels},
    {"inference-rng-tracker", kernels},
    {"moe-permute-fusion", kernels},
    {"moe-grouped-gemm", kernels},
    {"moe-router-fusion", kernels},
    {"moe-router-dtype", kernels},
    {"moe-router-padding-for-*", kernels},
    {"moe-per-layer-logging", logs},
    {"moe-router-load-balancing-type", "the balancing loss has one kind here"},
    {"moe-router-enable-expert-bias", biases},
    {"moe-router-bias-update-rate", biases},
    {"moe-token-drop-policy", "places go by position here"},
    {"moe-pad-expert-input-to-capacity", "places of experts are always padded here"},
    {"moe-z-loss-coeff", "a term of the loss that costs nothing to speak of"},
    {"moe-router-score-function", kernels},
    {"moe-router-pre-softmax", kernels},
    {"rotary-seq-len-interpolation-factor", "changes angles, not costs"},
    {"use-rope-scaling", "changes angles, not costs"},
    {"rope-scaling-factor", "changes angles, not costs"},
    {"no-position-embedding", "rotary models have no table of positions"},
    {"no-async-tensor-model-parallel-allreduce", "without effect in Megatron-LM too"},
    {"no-overlap-p2p-communication", "messages between stages go beside compute where they can"},
    {"overlap-p2p-communication*", "messages between stages go beside compute where they can"},
    {"align-*", kernels},
    {"no-align-*", kernels},
    {"defer-embedding-wgrad-compute", kernels},
    {"wgrad-deferral-limit", kernels},
    {"delay-wgrad-compute", kernels},
    {"delay-param-gather", kernels},
    {"overlap-param-gather-with-optimizer-step", kernels},
    {"ddp-*", kernels},
    {"nccl-*", "how NCCL is set up; the profile of the machine says how fast it is"},
    {"high-priority-stream-groups", kernels},
    {"tp-comm-*", "how tensor communication is cut in detail"},
    {"disable-tp-comm-*", "how tensor communication is cut in detail"},
    {"gradient-accumulation-fusion", kernels},
    {"fp8-amax-*", "scales of `delayed` come from the last 1024 steps here"},
    {"fp8-margin", "scales have no margin here"},
    {"fp8-interval", "scales are renewed in every step here"},
    {"no-fp8-wgrad", "gradients of weights are products of 8 bits too here"},
    {"fp8-param-gather",
     "weights of zero_stage 1 travel in 16 bits here; in 8 they do with training.fp8_gathers"},
    {"fp4-param-gather", "weights travel in 16 bits here; predicted times of gathers are too long"},
    {"keep-fp8-*", kernels},
    {"fp8-param", "weights travel in 16 bits here"},
    {"empty-unused-memory-level", "how its allocator works"},
    {"microbatch-group-size-per-virtual-pipeline-stage",
     "groups have as many micro-batches as stages here"},
    {"microbatch-group-size-per-vp-stage", "groups have as many micro-batches as stages here"},
    {"train-sync-interval", checks},
    {"distribute-saved-activations", "activations are kept whole here"},
    {"no-weight-decay-*", "matrices alone decay here"},
    {"use-tokenizer-model-from-checkpoint-args", data},
    {"adlr-autoresume*", start},
    {"DDP-impl", kernels},
    {"calculate-per-token-loss", "the mean of the loss, not its cost"},
    {"use-contiguous-buffers-in-local-ddp", kernels},
    {"fused-kernels", kernels},
    {"moe-router-topk", "of a model with experts"},
    {"moe-ffn-hidden-size", "of a model with experts"},
    {"moe-aux-loss-coeff", "of a model with experts"},
    {"moe-expert-capacity-factor", "of a model with experts"},
    {"deepspeed_config", "the file of DeepSpeed, which is read"},
    {"deepspeed-*", ours},
    {"partition-activations", "activations are kept whole here"},
    {"contigious-checkpointing", ours},
    {"synchronize-each-layer", ours},
    {"profile-backward", checks},
    {"zero-*", ours},
    {"zero_optimization.*", ours},
    {"bf16.*", ours},
    {"fp16.*", ours},
    {"communication_data_type", ours},
    {"data_types.*", ours},
    {"gradient_clipping", "--clip-grad says it"},
    {"gradient_accumulation_steps", "follows from both batch sizes"},
    {"train_batch_size", "--global-batch-size says it"},
    {"train_micro_batch_size_per_gpu", "--micro-batch-size says it"},
    {"steps_per_print", logs},
    {"wall_clock_breakdown", logs},
    {"dump_state", logs},
    {"comms_logger.*", logs},
    {"flops_profiler.*", checks},
    {"tensorboard.*", logs},
    {"wandb.*", logs},
    {"csv_monitor.*", logs},
    {"checkpoint.*", saves},
    {"zero_allow_untested_optimizer", ours},
    {"prescale_gradients", "sums are means here"},
    {"memory_centric_tiled_linear", ours},
    {"split-transformers", ours},
    {"sync-tp-duplicated-parameters", ours},
    {"scattered-embeddings", ours},
    {"pp-partition-method", "stages have the same number of layers here"},
    {"universal-checkpoint", saves},
    {"kill-switch-path", checks},
    {"abort-on-unmet-fused-kernel-constraints", checks},
    {"codecarbon-dir", logs},
    {"skip-train-iteration-range", shown},
    {"train-tokens", "--train-iters or --train-samples says how long"},
    {"lr-decay-tokens", "the rate falls until training.steps here"},
    {"lr-warmup-tokens", "the warm-up is counted in steps here"},
    {"override-lr-scheduler", saves},
    {"use-checkpoint-lr-scheduler", saves},
    {"aml-data-download-path", data},
    {"train-weighted-split-paths*", data},
    {"valid-weighted-split-paths*", data},
    {"data-file", data},
    {"reset-*", data},
    {"exit-duration*", checks},
    {"embed-layernorm", "a norm after the embedding, which costs next to nothing"},
    {"pad-vocab-size-to", "the vocabulary is padded to 128 x tensor here"},
    {"dataset*", data},
    {"hf-*", data},
    {"tokenizer*", data},
    {"extra-vocab-size", data},
    {"patch-tokenizer-type", data},
    {"train-data", data},
    {"valid-data", data},
    {"test-data", data},
    {"data-dir", data},
    {"sft", data},
    {"padding-side", data},
    {"add-bos-token", data},
    {"program", "what is started"},
    {"env.*", "the environment of its processes; launch files have their own"},
    {"torchrun.*", start},
    {"sbatch.*", "the queue's; launch files have their own"},
};

std::vector<ExportedFile> files(const JobValues&, const Settings& settings) {
  std::string text;
  for (const std::string& word : words_of_arguments(settings)) {
    const bool is_name = word.starts_with("--");
    text += (text.empty() ? "" : is_name ? "\n" : " ") + shell_word(word);
  }
  return {{"arguments.txt", text + "\n"}};
}

// Returns what starts Megatron-LM. With tensor or context ranks, kernels must start in the order of
// the program, so CUDA_DEVICE_MAX_CONNECTIONS is 1 (NVIDIA's user guides). Megatron-FSDP (ZeRO
// stages 2 and 3) needs more connections.
Launch launch(const JobValues& job, const Settings& settings) {
  Launch launch = launch_of(job);
  launch.words = {"pretrain_gpt.py"};
  for (const std::string& word : words_of_arguments(settings)) launch.words.emplace_back(word);
  const Parallelism& p = job.plan.parallelism;
  if (p.zero_stage <= 1 && (p.tensor > 1 || p.context > 1))
    launch.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  return launch;
}

}  // namespace

std::vector<std::string> words_of_arguments(const Settings& settings) {
  std::vector<std::string> words;
  const auto text_of = [](const json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const Setting& each : settings.all()) {
    words.push_back("--" + each.name);
    if (each.value.is_array())
      for (const json& value : each.value) words.push_back(text_of(value));
    else if (each.value != true)
      words.push_back(text_of(each.value));
  }
  return words;
}

const InteropTarget megatron_lm_target = {Framework::megatron_lm,
                                          "Megatron-LM, arguments of pretrain_gpt.py",
                                          megatron_rules,
                                          rows,
                                          files,
                                          launch,
                                          with_names_of_today};

}  // namespace meshwright::interop
