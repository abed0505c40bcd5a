// Defines the target SageMaker: the estimator of Python SDK 2 and, for version 2 of the library,
// the ModelTrainer of SDK 3, each as JSON and as the program that starts it.
#include "models/architectures/huggingface_config.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/sagemaker/sagemaker.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view service = "the service's; it changes no plan";
constexpr std::string_view data = "data; `data` says what train reads here";
constexpr std::string_view logs = "logging; `log` says what train writes here";
constexpr std::string_view saves =
    "checkpoints of its own; `checkpoint` says when train saves here";
constexpr std::string_view shown = "evaluation between steps, which predictions leave out";
constexpr std::string_view kernels = "a choice that predictions do not tell apart";
constexpr std::string_view degrees = "the distribution dictionary says it";
constexpr std::string_view values = "initial values of weights";

constexpr WithoutMeaning rows[] = {
    {"entry_point", service},
    {"source_dir", service},
    {"source_code.*", service},
    {"role", service},
    {"base_job_name", service},
    {"framework_version", service},
    {"transformers_version", service},
    {"pytorch_version", service},
    {"py_version", service},
    {"image_uri", service},
    {"training_image", service},
    {"output_path", service},
    {"checkpoint_s3_uri", saves},
    {"checkpoint_local_path", saves},
    {"volume_size", service},
    {"max_run", service},
    {"keep_alive_period_in_seconds", service},
    {"debugger_hook_config", service},
    {"disable_profiler", service},
    {"metric_definitions", logs},
    {"subnets", service},
    {"security_group_ids", service},
    {"dependencies", service},
    {"environment.*", service},
    {"env.*", service},
    {"compute.*", service},
    {"request.*", service},
    {"sagemaker_session", service},
    {"input_mode", service},
    {"code_location", service},
    {"profiler_config*", service},
    {"tensorboard_output_config*", service},
    {"use_spot_instances", service},
    {"max_wait", service},
    {"enable_remote_debug", service},
    {"tags", service},
    {"model_uri", service},
    {"git_config.*", service},
    {"session", service},
    {"stopping_condition.*", service},
    {"output_data_config.*", service},
    {"checkpoint_config.*", service},
    {"input_data_config*", service},
    {"max_retry_attempts", service},
    {"instance_groups", service},
    {"encrypt_inter_container_traffic", service},
    {"enable_network_isolation", service},
    {"entry_script", service},
    {"job_name", service},
    {"debugger_*", service},
    {"model_dir", saves},
    {"model_channel_name", service},
    {"container_*", service},
    {"disable_output_compression", service},
    {"disable_profiler*", service},
    {"enable_sagemaker_metrics", service},
    {"enable_cloudwatch_metrics", logs},
    {"enable_session_tag_chaining", service},
    {"enable_infra_check", service},
    {"rules", service},
    {"script_mode", service},
    {"hub_name", service},
    {"datasets_version", service},
    {"training_image_config*", service},
    {"training_repository_*", service},
    {"remote_debug_config*", service},
    {"session_chaining_config*", service},
    {"train_volume_size", service},
    {"train_max_run", service},
    {"hyperparameters.use_smp_implementation", "the library's layers are what is predicted"},
    {"name", service},
    {"hyperparameters.epochs", "training.steps counts steps"},
    {"hyperparameters.epoch", "training.steps counts steps"},
    {"hyperparameters.num_train_epochs", "training.steps counts steps"},
    {"hyperparameters.sagemaker_*", "what the SDK adds for its containers"},
    {"hyperparameters.training_dir", data},
    {"hyperparameters.test_dir", data},
    {"hyperparameters.training-dir", data},
    {"hyperparameters.test-dir", data},
    {"hyperparameters.dataset*", data},
    {"hyperparameters.data_*", data},
    {"hyperparameters.use_synthetic_data", data},
    {"hyperparameters.tokenizer*", data},
    {"hyperparameters.zipped_data", data},
    {"hyperparameters.same_seed", data},
    {"hyperparameters.task_name", data},
    {"hyperparameters.do_*", shown},
    {"hyperparameters.val*", shown},
    {"hyperparameters.eval_*", shown},
    {"hyperparameters.evaluation_strategy", shown},
    {"hyperparameters.per_device_eval_batch_size", shown},
    {"hyperparameters.logging_*", logs},
    {"hyperparameters.log_*", logs},
    {"hyperparameters.output_dir", saves},
    {"hyperparameters.checkpoint*", saves},
    {"hyperparameters.save_*", saves},
    {"hyperparameters.num_kept_checkpoints", saves},
    {"hyperparameters.load_*", saves},
    {"hyperparameters.finetune_*", values},
    {"hyperparameters.initializer_range", values},
    {"hyperparameters.hf_pretrained_model_name_or_dir", values},
    {"hyperparameters.hf_access_token", values},
    {"hyperparameters.max_input_length", data},
    {"hyperparameters.forward_prefetch", "gathers go beside compute where they can"},
    {"hyperparameters.backward_fetch_policy", "gathers go beside compute where they can"},
    {"hyperparameters.auto_wrap_policy", "a block is a unit"},
    {"hyperparameters.limit_all_gathers", "two units are gathered at once"},
    {"hyperparameters.use_orig_param*", kernels},
    {"hyperparameters.delayed_param", "ranks only ever make the parameters that they hold"},
    {"hyperparameters.min_lr", "learning rates fall to 0 here"},
    {"hyperparameters.plateau", "the rate falls from the end of the warm-up here"},
    {"hyperparameters.lr_decay_iters", "the rate falls until training.steps here"},
    {"hyperparameters.clean_cache", "how an allocator is flushed"},
    {"hyperparameters.fine_tune", values},
    {"hyperparameters.manual_partition", degrees},
    {"hyperparameters.partition_assignment", degrees},
    {"hyperparameters.skip_full_optimizer", saves},
    {"hyperparameters.shard_optimizer_state", degrees},
    {"hyperparameters.tensor_parallel_degree", degrees},
    {"hyperparameters.pipeline_parallel_degree", degrees},
    {"hyperparameters.sharded_data_parallel_degree", degrees},
    {"hyperparameters.expert_parallel_degree", degrees},
    {"hyperparameters.context_parallel_degree", degrees},
    {"hyperparameters.hybrid_shard_degree", degrees},
    {"hyperparameters.microbatches", degrees},
    {"hyperparameters.active_microbatches", degrees},
    {"hyperparameters.prescaled_batch", degrees},
    {"hyperparameters.optimize", degrees},
    {"hyperparameters.placement_strategy", degrees},
    {"hyperparameters.offload_activations", degrees},
    {"hyperparameters.activation_loading_horizon", degrees},
    {"hyperparameters.skip_tracing", degrees},
    {"hyperparameters.ddp_dist_backend", "NCCL's collectives take the place of SageMaker's own"},
    {"hyperparameters.distributed_backend", "NCCL's collectives take the place of SageMaker's own"},
    {"hyperparameters.use_distributed_transformer", degrees},
    {"hyperparameters.smp_version", kernels},
    {"hyperparameters.moe", "the model says it"},
    {"hyperparameters.moe_*", "the balancing loss has one kind here"},
    {"hyperparameters.fused_*", kernels},
    {"hyperparameters.query_key_layer_scaling", kernels},
    {"hyperparameters.attention_in_fp32", kernels},
    {"hyperparameters.activation_offloading", degrees},
    {"hyperparameters.enable_memory_profiling", logs},
};

constexpr std::string_view estimator_program =
    R"(# Starts the job with SageMaker's Python SDK 2: pip install "sagemaker<3"; python3 estimator.py
# train.py, the training script, and config.json, its model, lie in this folder.
import json
import os
import pathlib

from sagemaker.pytorch import PyTorch

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = json.loads((HERE / "estimator.json").read_text())


def make(role, **others):
    return PyTorch(
        entry_point="train.py",
        source_dir=str(HERE),
        role=role,
        framework_version="FRAMEWORK",
        py_version="PYTHON",
        debugger_hook_config=False,
        **SETTINGS,
        **others,
    )


if __name__ == "__main__":
    make(os.environ["SAGEMAKER_ROLE"]).fit()
)";

constexpr std::string_view trainer_program =
    R"(# Starts the job with SageMaker's Python SDK 3: pip install "sagemaker>=3"; python3 model_trainer.py
# train.py, the training script, and config.json, its model, lie in this folder. TRAINING_IMAGE: a
# container with the model parallel library, version 2 (smdistributed-modelparallel).
import json
import os
import pathlib

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.distributed import SMP, Torchrun

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = json.loads((HERE / "model_trainer.json").read_text())


def distributed():
    return Torchrun(
        process_count_per_node=SETTINGS["distributed"]["process_count_per_node"],
        smp=SMP(**SETTINGS["distributed"]["smp"]),
    )


def make(role, training_image, **others):
    return ModelTrainer(
        role=role,
        training_image=training_image,
        source_code=SourceCode(source_dir=str(HERE), entry_script="train.py"),
        compute=Compute(**SETTINGS["compute"]),
        distributed=distributed(),
        hyperparameters=SETTINGS["hyperparameters"],
        **others,
    )


if __name__ == "__main__":
    make(os.environ["SAGEMAKER_ROLE"], os.environ["TRAINING_IMAGE"]).train()
)";

std::string with(std::string text, const std::string& word, const std::string& value) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? text : text.replace(at, word.size(), value);
}

// Returns the settings of SDK 3: the library's parameters, the instances and the hyperparameters,
// under the names that ModelTrainer has for them.
Settings trainer_settings(const JobValues& job, const Settings& settings) {
  const std::string library = "distribution.smdistributed.modelparallel.parameters.";
  Settings result;
  result.add("distributed.process_count_per_node", job.gpus_per_host);
  for (const Setting& each : settings.all()) {
    if (each.name.starts_with(library))
      result.add("distributed.smp." + each.name.substr(library.size()), each.value);
    else if (each.name.starts_with("instance_"))
      result.add("compute." + each.name, each.value);
    else if (each.name.starts_with("hyperparameters."))
      result.add(each.name, each.value);
  }
  return result;
}

std::vector<ExportedFile> files(const JobValues& job, const Settings& settings) {
  const bool is_first = job.plan.parallelism.pipeline > 1;
  // PyTorch 2.4.1 is one of the framework versions with version 2 of the library, and 1.13.1 is the
  // last one with version 1.
  std::string program =
      with(std::string(estimator_program), "FRAMEWORK", is_first ? "1.13.1" : "2.4.1");
  program = with(program, "PYTHON", is_first ? "py39" : "py311");
  std::vector<ExportedFile> files = {{"estimator.json", json_text(settings)},
                                     {"estimator.py", program, true},
                                     {"config.json", huggingface_config(job.model).dump(2) + "\n"}};
  if (!is_first) {
    files.push_back({"model_trainer.json", json_text(trainer_settings(job, settings))});
    files.push_back({"model_trainer.py", std::string(trainer_program), true});
  }
  return files;
}

// Returns a launch without a command, so that no launcher writes a file, because the service starts
// the processes.
Launch launch(const JobValues& job, const Settings&) { return launch_of(job); }

}  // namespace

const InteropTarget sagemaker_target = {Framework::sagemaker,
                                        "SageMaker training jobs, the estimator's settings",
                                        sagemaker_rules,
                                        rows,
                                        files,
                                        launch,
                                        with_names_of_estimator};

}  // namespace meshwright::interop
