// Defines the target torchtitan: a TOML file for its 0.2 releases and a Python recipe for 0.3. If
// the model is none of torchtitan's flavors, a module that registers its sizes is added.
#include "models/architectures/huggingface_config.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/target.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view about_data = "data and tokenizer; `data` says what train reads here";
constexpr std::string_view about_logs = "logging; `log` says what train writes here";
constexpr std::string_view about_saves =
    "checkpoints of its own; `checkpoint` says when train saves here";
constexpr std::string_view about_checks = "checks and profiling, which change no plan";
constexpr std::string_view about_start = "how processes meet";
constexpr std::string_view about_shown = "evaluation between steps, which predictions leave out";
constexpr std::string_view about_kernels =
    "a choice among kernels that predictions do not tell apart";

constexpr WithoutMeaning rows[] = {
    {"job.*", about_logs},
    {"profiling.*", about_checks},
    {"profiler.*", about_checks},
    {"metrics.*", about_logs},
    {"model.hf_assets_path", about_data},
    {"model.tokenizer_path", about_data},
    {"hf_assets_path", about_data},
    {"dump_folder", about_logs},
    {"model.print_after_conversion", about_logs},
    {"training.dataset*", about_data},
    {"training.dataloader.*", about_data},
    {"dataloader.*", about_data},
    {"data.*", about_data},
    {"training.gc_*", "when Python collects garbage"},
    {"training.enable_cpu_offload",
     "parameters and states stay on the device here; memory is predicted as without"},
    {"optimizer.implementation", about_kernels},
    {"optimizer.early_step_in_backward", "the optimizer steps after the backward here"},
    {"optimizer.fused", about_kernels},
    {"lr_scheduler.total_steps", "the rate falls until training.steps here"},
    {"lr_scheduler.min_lr_factor", "learning rates fall to 0 here"},
    {"lr_scheduler.lr_min", "learning rates fall to 0 here"},
    {"parallelism.enable_loss_parallel", "the head is always cut with its loss here"},
    {"parallelism.disable_loss_parallel", "the head is always cut with its loss here"},
    {"parallelism.pipeline_parallel_schedule_csv", "schedules of one's own are not read"},
    {"parallelism.pipeline_parallel_expert_parallel_overlap",
     "forwards and backwards of DualPipeV follow each other here"},
    {"parallelism.pipeline_parallel_split_points",
     "names of older versions, without effect in 0.2"},
    {"parallelism.expert_parallel_comm_backend", about_kernels},
    {"checkpoint.*", about_saves},
    {"training.checkpoint_folder", about_saves},
    {"training.checkpoint_interval*", about_saves},
    {"activation_checkpoint.*", "how recomputation is checked and made in detail"},
    {"compile.backend", about_kernels},
    {"quantize.linear.float8.recipe_name",
     "scales are of whole tensors here; predicted times of rowwise ones are a little too short"},
    {"quantize.linear.float8.*", "details of products of 8 bits"},
    {"quantize.linear.mx.*", "details of products of 8 bits"},
    {"quantize.grouped_mm.*", "experts multiply 16 bits here"},
    {"quantize.*", "details of products of 8 bits"},
    {"float8.*", "details of products of 8 bits"},
    {"mx.*", "details of products of 8 bits"},
    {"comm.*", about_start},
    {"infra.*", "how processes are bound to the parts of a host"},
    {"hf_transformers.*", "another flavor has its own sizes"},
    {"memory_estimation.*", about_checks},
    {"fault_tolerance.*", "replicas that come and go are not planned"},
    {"experimental.custom_*", "code of one's own"},
    {"experimental.pipeline_parallel_split_points", "stages have the same number of layers here"},
    {"experimental.enable_compiled_autograd", about_kernels},
    {"experimental.job_config_files", "code of one's own"},
    {"experimental.*", "code of one's own"},
    {"validation.*", about_shown},
    {"debug.*", about_checks},
    {"automodel.*", "how NeMo AutoModel works in detail"},
    {"program", "the program of torchtitan itself"},
    {"torchrun.*", about_start},
    {"sbatch.*", "the queue's; launch files have their own"},
    {"env.*", "the environment of its processes; launch files have their own"},
};

// Returns a Python module that registers a model whose sizes are no flavor of llama3. torchtitan
// rounds the MLP's width up to a multiple of multiple_of, so multiple_of is the width itself.
std::string module_text(const Model& m) {
  const auto text = [](auto value) { return nlohmann::json(value).dump(); };
  return "# A Llama of these sizes, under the name that the settings give.\n"
         "from dataclasses import replace\n\n"
         "from torchtitan.models.llama3 import TransformerModelArgs, get_train_spec\n"
         "from torchtitan.protocols.train_spec import register_train_spec\n\n"
         "JOB = TransformerModelArgs(\n"
         "    dim=" +
         text(m.hidden) +
         ",\n"
         "    n_layers=" +
         text(m.layers) +
         ",\n"
         "    n_heads=" +
         text(m.heads) +
         ",\n"
         "    n_kv_heads=" +
         text(m.kv_heads) +
         ",\n"
         "    vocab_size=" +
         text(m.vocabulary) +
         ",\n"
         "    ffn_dim_multiplier=" +
         text(0.5 * m.ffn / (8.0 / 3.0 * m.hidden)) +
         ",\n"
         "    multiple_of=" +
         text(m.ffn) +
         ",  # the MLP's width is rounded up to it\n"
         "    norm_eps=" +
         text(m.norm_epsilon) +
         ",\n"
         "    rope_theta=" +
         text(m.rotary_base) +
         ",\n"
         ")\n\n"
         "register_train_spec(\n"
         "    \"llama3_meshwright\", replace(get_train_spec(), model_args={\"job\": JOB})\n"
         ")\n";
}

std::vector<ExportedFile> files(const JobValues& job, const Settings& settings) {
  std::vector<ExportedFile> all = {{"torchtitan.toml", toml_text(settings)},
                                   {"meshwright_recipe.py", torchtitan_recipe(job, settings)},
                                   {"config.json", huggingface_config(job.model).dump(2) + "\n"}};
  if (flavor_of(job.model).empty()) all.push_back({"meshwright_model.py", module_text(job.model)});
  return all;
}

Launch launch(const JobValues& job, const Settings&) {
  Launch launch = launch_of(job);
  launch.words = {"-m", "torchtitan.train", "--job.config_file", "torchtitan.toml"};
  launch.environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True";  // as its run_train.sh
  if (flavor_of(job.model).empty()) launch.environment["PYTHONPATH"] = ".";
  return launch;
}

std::vector<std::string> warnings(const JobValues& job) {
  std::vector<std::string> all;
  for (const std::string& difference : torchtitan_recipe_differences(job.plan))
    all.push_back("meshwright_recipe.py: " + difference);
  return all;
}

}  // namespace

const InteropTarget torchtitan_target = {
    .framework = Framework::torchtitan,
    .title = "torchtitan, a TOML file for 0.2 and a Python recipe for 0.3",
    .rules = torchtitan_rules,
    .without_meaning = rows,
    .files = files,
    .launch = launch,
    .translate = with_names_of_titan,
    .warnings = warnings};

}  // namespace meshwright::interop
