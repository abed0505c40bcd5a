// `export-weights JOB --to FOLDER` and `import-weights JOB --from FOLDER`: checkpoints to and from
// what Hugging Face's transformers loads and saves.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/huggingface.h"
#include "models/core/error.h"
#include "models/importers/huggingface_config.h"
#include "tools/commands/commands.h"
#include "tools/job/machines.h"
#include "tools/print.h"
#include "tools/report/print_json.h"
#include "tools/report/text.h"
#include "tools/run/checkpoints.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

namespace fs = std::filesystem;

struct Parameters {
  std::map<std::string, Shape> shapes;
  PublishedParts parts;
};

// How the model is cut does not change what its parameters are.
Parameters parameters_of(const Job& job) {
  Training training = job.plan.training;
  training.micro_batch = 1;
  Parameters found;
  for (const Parameter& parameter : build_graph(job.model, training).parameters) {
    if (!parameter.counted) continue;
    found.shapes[parameter.name] = parameter.global_shape;
    if (parameter.part) found.parts[parameter.name] = *parameter.part;
  }
  return found;
}

double count_of(const std::map<std::string, Shape>& parameters) {
  return std::accumulate(parameters.begin(), parameters.end(), 0.0,
                         [](double sum, const auto& each) {
                           return sum + static_cast<double>(each.second.elements());
                         });
}

std::string folder_of(const Job& job, const Options& options) {
  if (!options.checkpoint.empty()) return options.checkpoint;
  if (job.checkpoint) return job.checkpoint->folder;
  throw InputError(job.file + ": has no checkpoint.folder; name one with --checkpoint");
}

void check_all(const Checkpoint& found, const std::map<std::string, Shape>& parameters) {
  found.check_holds(parameters);
  for (std::size_t i = 0; i < found.shards(); ++i) found.check_shard(i);
}

// One checkpoint, or the newest good one of a run's folder.
std::pair<std::string, Checkpoint> newest_good(const std::string& folder,
                                               const std::map<std::string, Shape>& parameters) {
  std::vector<StepFolder> steps = step_folders(folder);
  const bool is_one = path_exists(folder + "/manifest.json");
  if (is_one) steps = {{0, folder}};
  for (const StepFolder& step : steps) try {
      Checkpoint found(step.path);
      check_all(found, parameters);
      return {step.path, std::move(found)};
    } catch (const InputError& error) {
      if (is_one) throw;
      std::fprintf(stderr, "%s; this checkpoint is passed over\n", error.what());
    }
  throw InputError(folder + ": holds no good checkpoint");
}

void print(const Options& options, const nlohmann::json& value, const std::string& line) {
  if (options.json)
    print_json(value);
  else
    print_to(stdout, "{}\n", line);
}

}  // namespace

int run_export_weights(const Options& options) {
  const Job job = read_job_of(options);
  if (options.to.empty()) throw InputError(options.command + ": --to names the folder to write");
  if (fs::exists(options.to + "/model.safetensors"))
    throw InputError("--to " + options.to + ": holds a model; name another folder");
  check_writable("--to", options.to + "/model.safetensors");
  const auto [parameters, parts] = parameters_of(job);
  const std::string config = json_text(huggingface_config(job.model));
  const auto [path, found] = newest_good(folder_of(job, options), parameters);
  make_folder(options.to);
  write_file(options.to + "/config.json", config);
  const std::string part = options.to + "/model.safetensors.part";
  export_weights(found, parameters, part, parts);
  rename_path(part, options.to + "/model.safetensors");
  const std::int64_t step = found.manifest().step;
  print(options,
        {{"checkpoint", path},
         {"step", step},
         {"to", options.to},
         {"tensors", parameters.size()},
         {"parameters", count_of(parameters)}},
        "exported " + show_count(count_of(parameters)) + " parameters of step " +
            std::to_string(step) + " to " + options.to);
  return done;
}

int run_import_weights(const Options& options) {
  const Job job = read_job_of(options);
  if (options.from.size() != 1)
    throw InputError(options.command +
                     ": --from names the folder with model.safetensors, or the file");
  const std::string& source = options.from.front();
  if (!job.checkpoint)
    throw InputError(job.file +
                     ": /checkpoint: is missing; the weights become the first checkpoint "
                     "of its folder");
  check_checkpoint_folder(job, false);
  const auto [parameters, parts] = parameters_of(job);
  const Safetensors from(source);
  const FolderLock lock(job.checkpoint->folder);
  check_checkpoint_folder(job, false);
  std::vector<std::string> unused;
  try {
    unused = import_weights(from, parameters, first_manifest(job), job.checkpoint->folder, parts);
  } catch (const InputError& error) {
    remove_part_folders(job.checkpoint->folder);
    const std::string what = error.what();
    throw InputError(what.starts_with("has no ") ? source + ": " + what : what);
  }
  print(options,
        {{"checkpoint", step_folder(job.checkpoint->folder, 0)},
         {"from", source},
         {"tensors", parameters.size()},
         {"parameters", count_of(parameters)},
         {"unused", unused}},
        "imported " + show_count(count_of(parameters)) + " parameters from " + source +
            (unused.empty() ? ""
                            : "; " + std::to_string(unused.size()) + " tensors were not needed (" +
                                  unused.front() + (unused.size() > 1 ? ", ...)" : ")")) +
            "; `train --resume` begins with them");
  return done;
}

const Command export_weights_command = {
    "export-weights",
    "JOB",
    job_help,
    "write a checkpoint as what transformers' from_pretrained loads",
    "json set profile checkpoint to",
    run_export_weights,
    "Writes config.json and model.safetensors of the newest good checkpoint, or of that which "
    "--checkpoint names."};

const Command import_weights_command = {
    "import-weights",
    "JOB",
    job_help,
    "make a job's first checkpoint of Hugging Face safetensors",
    "json set profile from",
    run_import_weights,
    "Makes the job's first checkpoint (step 0, weights only); `train --resume` begins with it."};

}  // namespace meshwright
