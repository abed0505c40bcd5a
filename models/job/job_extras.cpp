// The small sections: compiler_config, objective, data, checkpoint, log.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/sections.h"

namespace meshwright {

namespace {

std::optional<double> positive_if_given(Fields& fields, std::string_view key) {
  if (!fields.has(key)) return std::nullopt;
  const double value = fields.required<double>(key);
  if (!(value > 0)) fields.fail(key, fmt::format("{} must be above 0", value));
  return value;
}

}  // namespace

std::string resolve(const Job& job, const std::string& path) {
  return (std::filesystem::path(job.folder) / path).lexically_normal().string();
}

void warn(Job& job, const Fields& fields, std::string_view key, const std::string& text) {
  job.warnings.push_back(fmt::format("{}: {}/{}: {}", fields.where(), fields.pointer(), key, text));
}

void warn_about_offload(const Fields& fields, std::string_view key, Job& job) {
  const Training& training = job.plan.training;
  if (training.recompute == Recompute::none && training.recompute_modules.empty() &&
      !job.is_auto("training.recompute"))
    warn(job, fields, key, "no effect without activation checkpointing (training.recompute)");
}

bool take_auto(Fields& fields, std::string_view key, const std::string& section, Job& job) {
  if (!fields.is_string(key) || fields.required<std::string>(key) != "auto") return false;
  job.autos.insert(section + "." + std::string(key));
  return true;
}

void read_compiler_config(Fields& job_fields, const ChosenCluster& cluster, Job& job) {
  Fields fields = job_fields.object("compiler_config");
  const bool enabled = fields.optional<bool>("enabled", true);
  const bool debug = fields.optional<bool>("debug", false);
  fields.done();
  if (!enabled) return;
  if (job_fields.has("distribution") && job_fields.object("distribution").has("smdistributed"))
    job_fields.fail("compiler_config",
                    "does not go with distribution.smdistributed; use \"training\": "
                    "{\"compiler\": \"full\"} and \"parallelism\"");
  if (job_fields.object("training").has("compiler"))
    job_fields.fail("compiler_config", "given beside training.compiler; keep one of them");
  const std::vector<std::string> classes = {"p3", "p3dn", "g4dn", "p4d", "g5"};
  const std::string machine_class = cluster.machine.substr(0, cluster.machine.find('.'));
  // The rule binds the instance that a job is for, not its rehearsal or training on this computer.
  if (cluster.hosts > 0 && cluster.machine != "local" &&
      std::find(classes.begin(), classes.end(), machine_class) == classes.end())
    job_fields.fail("compiler_config",
                    fmt::format("SageMaker Training Compiler does not know '{}', only {}; use "
                                "\"training\": {{\"compiler\": \"full\"}}",
                                cluster.machine, list_of(classes, "and")));
  const bool distributed = job_fields.has("distribution");
  if (distributed && !job_fields.object("distribution").has("pytorchxla"))
    warn(job, job_fields, "distribution",
         "the compiler's later versions on SageMaker take 'pytorchxla' only; here any goes");
  if (!distributed && cluster.hosts > 1)
    warn(job, job_fields, "compiler_config",
         "on SageMaker several instances need \"distribution\": {\"pytorchxla\": {\"enabled\": "
         "true}}; not needed here");
  job.plan.training.compiler = CompilerLevel::full;
  job.compiler_debug = debug;
  if (debug) warn(job, fields, "debug", "the graph after each pass is written, which takes longer");
}

const std::vector<std::string>& minimize_names() {
  static const std::vector<std::string> names = {"step_time", "usd", "usd_per_token", "tokens",
                                                 "gpus"};
  return names;
}

void read_objective(Fields fields, Job& job) {
  take_word(fields, "minimize", "objective", minimize_names(), job.objective.minimize);
  job.objective.tokens = positive_if_given(fields, "tokens");
  job.objective.deadline_s = positive_if_given(fields, "deadline_s");
  job.objective.budget_usd = positive_if_given(fields, "budget_usd");
  take(fields, "spot", job.objective.spot);
  if (job.objective.minimize == Minimize::tokens && !job.objective.budget_usd &&
      !job.objective.deadline_s)
    fields.fail("minimize",
                "'tokens' is as many as `budget_usd` or `deadline_s` allow; give one of them");
  fields.done();
}

namespace {

// What the model's head needs of the files.
void check_targets(const Fields& fields, const Job& job, const DataFiles& data) {
  if (job.model.head == Head::qa)
    fields.fail("files",
                "hold tokens, not the answers that head 'qa' learns; without data it trains on "
                "random ones");
  if (job.model.head != Head::mlm) {
    if (data.mask_token) fields.fail("mask_token", "only a model with head 'mlm' masks tokens");
  } else if (!data.mask_token) {
    fields.fail("mask_token",
                "is missing; say which token stands for a masked one (BERT's [MASK] is 103)");
  } else if (*data.mask_token < 0 || *data.mask_token >= job.model.vocabulary) {
    fields.fail("mask_token", fmt::format("{} is not in the model's vocabulary; use 0 to {}",
                                          *data.mask_token, job.model.vocabulary - 1));
  }
}

}  // namespace

void read_data(Fields fields, Job& job) {
  DataFiles data;
  data.files = fields.required<std::vector<std::string>>("files");
  if (data.files.empty()) fields.fail("files", "the list is empty; name a file");
  for (std::string& file : data.files) file = resolve(job, file);
  if (job.model.reads_images() && fields.has("format"))
    fields.fail(
        "format",
        "is that of tokens; files of images are records of a label and the pixels: leave it "
        "out");
  take_word(fields, "format", "format", token_format_names(), data.format);
  take(fields, "shuffle", data.shuffle);
  const auto seed = fields.optional<std::int64_t>("seed", 0);
  if (seed < 0) fields.fail("seed", fmt::format("{} is negative; use 0 or more", seed));
  data.seed = static_cast<std::uint64_t>(seed);
  if (fields.has("mask_token")) data.mask_token = fields.required<int>("mask_token");
  check_targets(fields, job, data);
  fields.done();
  job.data = std::move(data);
}

void read_checkpoint(Fields fields, Job& job) {
  Job::Checkpoint checkpoint;
  checkpoint.folder = resolve(job, fields.required<std::string>("folder"));
  checkpoint.every_steps = fields.required<int>("every_steps");
  take(fields, "keep", checkpoint.keep);
  for (const auto& [key, value] :
       {std::pair{"every_steps", checkpoint.every_steps}, std::pair{"keep", checkpoint.keep}})
    if (value < 1) fields.fail(key, fmt::format("{} is too small; use 1 or more", value));
  fields.done();
  job.checkpoint = std::move(checkpoint);
  job.plan.snapshot = true;
}

void read_log(Fields fields, Job& job) {
  for (const auto& [key, target] :
       {std::pair{"json", &job.log.json}, std::pair{"tensorboard", &job.log.tensorboard},
        std::pair{"folder", &job.log.folder}})
    if (fields.has(key)) *target = resolve(job, fields.required<std::string>(key));
  fields.done();
}

}  // namespace meshwright
