// Runs the commands `export-weights JOB --to FOLDER` and `import-weights JOB --from FOLDER`, which
// convert checkpoints to and from the files that Hugging Face's transformers loads and saves.
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "exec/checkpoint/adapters.h"
#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/huggingface.h"
#include "exec/checkpoint/resume.h"
#include "exec/runtime/initial.h"
#include "models/architectures/architecture.h"
#include "models/architectures/huggingface_config.h"
#include "models/compiler/passes/graph/add_adapters.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/output_file.h"
#include "models/job/identity.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/print_json.h"
#include "tools/session/checkpoints.h"
#include "tools/session/job_weights.h"
#include "tools/session/json_text.h"
#include "tools/session/published_files.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* adapter_file = "/adapter_model.safetensors";
constexpr const char* adapter_config_file = "/adapter_config.json";

double count_of(const std::map<std::string, Shape>& parameters) {
  return std::accumulate(parameters.begin(), parameters.end(), 0.0,
                         [](double sum, const auto& each) {
                           return sum + static_cast<double>(each.second.elements());
                         });
}

// Writes the parameters of an adapter to a file, under peft's names. `state` is the state of the
// checkpoint that is written: 0 for the weights, or the state with their average.
void export_adapter(const Checkpoint& from, const std::map<std::string, Shape>& parameters,
                    const std::string& file, int state) {
  std::map<std::string, std::string> own;
  std::map<std::string, Shape> written;
  for (const auto& [name, shape] : parameters) {
    own[peft_name(name)] = name;
    written[peft_name(name)] = shape;
  }
  export_weights(
      [&](const std::string& name, const ParameterRun& run, float* to) {
        const ParameterRun from_begin{0, run.global, run.count};
        from.read(own.at(name), state, {&from_begin, 1}, to);
      },
      written, file, {});
}

json config_of(const Job& job) {
  json config = huggingface_config(job.model);
  if (const int layers = job.plan.training.mtp_layers; layers > 0)
    config["num_nextn_predict_layers"] = layers;
  return config;
}

// Returns the folder whose published files are kept: the one that --from names, or else the nearest
// one that the job knows, or "" if there is none. Throws InputError if the named folder has no
// config.json.
std::string published_source(const Job& job, const Options& options) {
  if (options.from.empty()) return source_of_published(published_folders(job, options.checkpoint));
  const std::string& folder = options.from.front();
  if (source_of_published({folder}).empty())
    throw InputError("--from " + folder +
                     ": has no config.json; name the folder that the weights "
                     "came from");
  return folder;
}

void print(const Options& options, const json& value, const std::string& line) {
  if (options.json)
    print_json(value);
  else
    print_to(stdout, "{}\n", line);
}

}  // namespace

int run_export_weights(const Options& options) {
  const Job job = asked_job(options, printed_watch());
  check_allowed_changes(options.allow_changed);
  const std::optional<Lora>& lora = job.plan.training.lora;
  if (options.to.empty()) throw InputError(options.command + ": --to names the folder to write");
  if (options.adapter && !lora)
    throw InputError(job.file + ": has no training.lora; leave --adapter out");
  const std::string file = options.to + (options.adapter ? adapter_file : "/model.safetensors");
  if (fs::exists(fs::symlink_status(file)))
    throw InputError("--to " + options.to + ": holds " +
                     (options.adapter ? "an adapter" : "a model") + "; name another folder");
  check_writable("--to", file);
  const JobParameters parameters = parameters_of(job);
  if (options.from.size() > 1)
    throw InputError(options.command + ": --from names one folder with the files to keep");
  const std::string published = options.adapter ? "" : published_source(job, options);
  const std::string config =
      options.adapter
          ? peft_config(*lora, parameters.adapters, parameters.trained_whole)
          : json_text(published.empty()
                          ? config_of(job)
                          : with_published_keys(config_of(job), published, job, printed_watch()));
  const auto [path, found, base] = newest_good(checkpoint_folder(job, options.checkpoint), job,
                                               parameters, options.allow_changed, printed_watch());
  if (options.ema && found.average() < 0)
    throw InputError(path +
                     "/manifest.json: holds no average of the weights, which runs with "
                     "training.ema_decay keep; leave --ema out");
  const int state = options.ema ? found.average() : 0;
  const std::map<std::string, Shape> written =
      options.adapter ? parameters.of_adapters() : parameters.of_model();
  make_folder(options.to);
  write_file(options.to + (options.adapter ? adapter_config_file : "/config.json"), config);
  PartName part_name(options.to);
  const std::string& part = part_name.path();
  if (options.adapter) {
    export_adapter(found, written, part, state);
  } else if (!lora) {
    export_weights(found, written, part, parameters.parts, state);
  } else {
    export_merged({found, base ? &*base : nullptr, parameters.whole, parameters.adapters,
                   found.manifest().seed, job.model.layers, state},
                  written, part, parameters.parts);
  }
  if (const int why = part_name.rename_to(file); why != 0)
    throw RunError(file + ": cannot be written: " + std::strerror(why));
  std::vector<std::string> kept;
  if (!published.empty()) kept = copy_published(published, options.to);
  const std::int64_t step = found.manifest().step;
  print(options,
        {{"checkpoint", path},
         {"step", step},
         {"to", options.to},
         {"kept", kept},
         {"tensors", written.size()},
         {"parameters", count_of(written)}},
        "exported " + show_count(count_of(written)) +
            (options.ema ? " averages of parameters of step " : " parameters of step ") +
            std::to_string(step) + " to " + options.to +
            (kept.empty() ? "" : "; kept from " + published + ": " + list_of(kept, "and")));
  return done;
}

namespace {

bool is_adapter(const std::string& source) { return fs::exists(source + adapter_config_file); }

// Returns a function that makes the values with which training begins for `parameter`. The
// parameter must outlive the function.
std::function<std::vector<float>()> initial_values(const Parameter& parameter, std::uint64_t seed) {
  return [&parameter, seed] {
    std::vector<float> values(parameter.global_shape.elements());
    fill_initial(parameter, {seed}, 0, parameter.global_shape.elements(), values.data());
    return values;
  };
}

// Returns initial values for the parameters of the job's text classification head that `from`
// lacks. A file of a model without such a head does not hold them. Other jobs get no values.
MadeParameters made_head(const Job& job, const JobParameters& parameters, const Safetensors& from) {
  MadeParameters made;
  if (!job.model.classifies_text()) return made;
  const ArchitectureInfo& names = info(job.model.architecture);
  for (const auto& [name, parameter] : parameters.whole)
    for (const std::string_view module : {names.class_dense, names.class_output})
      if (!module.empty() && name.starts_with(std::string(module) + ".") && from.find(name).empty())
        made[name] = initial_values(parameter, job.plan.training.seed);
  return made;
}

// Returns the values of the job's adapters: those of the folder `source`, or the values with which
// training begins if `source` is empty. Throws InputError if the folder does not match the job.
MadeParameters made_adapters(const Job& job, const JobParameters& parameters,
                             const std::string& source) {
  MadeParameters made;
  if (parameters.adapters.empty()) return made;
  if (source.empty()) {
    for (const Adapter& each : parameters.adapters)
      for (const std::string& name : {each.first, each.second})
        made[name] = initial_values(parameters.whole.at(name), job.plan.training.seed);
    return made;
  }
  check_peft_config(source + adapter_config_file, *job.plan.training.lora);
  const auto from = std::make_shared<const Safetensors>(source + adapter_file);
  std::set<std::string> unused;
  for (const std::string& name : from->names()) unused.insert(name);
  for (const auto& [own, shape] : parameters.of_adapters()) {
    const std::string name = peft_name(own);
    if (unused.erase(name) == 0)
      throw InputError(source + adapter_file + ": has no " + name + ", which the job's model has");
    made[own] = [from, name, shape = shape] { return from->read(name, shape); };
  }
  if (!unused.empty())
    throw InputError(source + adapter_file + ": " + *unused.begin() +
                     " is of no module that training.lora.target_modules names");
  return made;
}

// Warns if `source` is a folder whose config.json describes another known model than the job's.
// Such weights may have the right names and shapes and still be meant for another computation.
void warn_of_other_model(const std::string& source, const Job& job) {
  const std::string file = source + "/config.json";
  if (!fs::is_regular_file(file)) return;
  Job published = job;
  try {
    published.model = read_huggingface(read_json_file(file));
  } catch (const InputError&) {
    return;  // the file describes no model that is known here
  }
  const Identity wanted = identity_of_weights(job);
  std::vector<std::string> differences;
  for (const auto& [key, value] : identity_of_weights(published))
    if (wanted.at(key) != value)
      differences.push_back(key + " " + value + " (the job's is " + wanted.at(key) + ")");
  if (!differences.empty())
    print_to(stderr, "warning: {}: has {}; the weights are used as the job's model says\n", file,
             list_of(differences, "and"));
}

}  // namespace

int run_import_weights(const Options& options) {
  const Job job = asked_job(options, printed_watch());
  const bool has_adapter = job.plan.training.lora && options.from.size() == 2;
  if (options.from.size() != 1 && !has_adapter)
    throw InputError(options.command +
                     ": --from names the folder with model.safetensors, or the file; of a job with "
                     "training.lora it may be given a second time, for the folder of an adapter");
  const std::string& source = options.from.front();
  if (has_adapter && !is_adapter(options.from.back()))
    throw InputError("--from " + options.from.back() + ": has no adapter_config.json");
  if (!job.checkpoint)
    throw InputError(job.file +
                     ": /checkpoint: is missing; the weights become the first checkpoint "
                     "of its folder");
  check_checkpoint_folder(job, false, true);
  const JobParameters all = parameters_of(job);
  const std::map<std::string, Shape>& parameters = all.shapes;
  const Safetensors from(source);
  MadeParameters made = made_adapters(job, all, has_adapter ? options.from.back() : std::string());
  MadeParameters head = made_head(job, all, from);
  std::erase_if(head, [&](const auto& each) { return made.contains(each.first); });
  made.insert(head.begin(), head.end());
  for (const std::string& name : all.ones)
    made[name] = initial_values(all.whole.at(name), job.plan.training.seed);
  const FolderLock lock(job.checkpoint->folder);
  check_checkpoint_folder(job, false, true);
  std::vector<std::string> unused;
  try {
    unused = import_weights(from, parameters, first_manifest(job), job.checkpoint->folder,
                            all.parts, made);
  } catch (const InputError& error) {
    remove_part_folders(job.checkpoint->folder);
    const std::string what = error.what();
    throw InputError(what.starts_with("has no ") ? source + ": " + what : what);
  }
  keep_published(source, job.checkpoint->folder);
  warn_of_other_model(source, job);
  for (const auto& [name, values] : head)
    print_to(stderr, "{} has no {}; it begins with random values\n", source, name);
  std::map<std::string, Shape> read = parameters;
  for (const std::string& name : all.ones) read.erase(name);
  print(options,
        {{"checkpoint", step_folder(job.checkpoint->folder, 0)},
         {"from", source},
         {"tensors", read.size()},
         {"parameters", count_of(read)},
         {"unused", unused}},
        "imported " + show_count(count_of(read)) + " parameters from " + source +
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
    "json wide set profile checkpoint to from adapter ema allow-changed",
    run_export_weights,
    "Writes config.json and model.safetensors of the newest good checkpoint, or of that which "
    "--checkpoint names. Keys of config.json that have no meaning here, generation_config.json and "
    "the tokenizer's files are kept from the folder that the weights were imported from, from that "
    "of the job's model, or from the one that `--from` names. Of a job with `training.lora` the "
    "adapters are added to the weights; with "
    "`--adapter` they are written alone, as `adapter_config.json` and "
    "`adapter_model.safetensors`, which peft loads. `--ema` writes the averages that a job with "
    "`training.ema_decay` keeps, in the weights' place."};

const Command import_weights_command = {
    "import-weights",
    "JOB",
    job_help,
    "make a job's first checkpoint of Hugging Face safetensors",
    "json wide set profile from",
    run_import_weights,
    "Makes the job's first checkpoint (step 0, weights only); `train --resume` begins with it. Of "
    "a "
    "job with `training.lora` adapters begin as in a new run, or as a second `--from` has them: a "
    "folder that peft wrote. Of a head `classification` what the file lacks begins so too."};

}  // namespace meshwright::tools
