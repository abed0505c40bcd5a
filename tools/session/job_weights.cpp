#include "tools/session/job_weights.h"

#include <filesystem>
#include <utility>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/resume.h"
#include "models/compiler/passes/graph/add_adapters.h"
#include "models/core/error.h"
#include "models/core/output_file.h"
#include "tools/session/checkpoints.h"

namespace meshwright::session {

namespace fs = std::filesystem;

std::map<std::string, Shape> JobParameters::of_model() const {
  std::map<std::string, Shape> shapes_of_model = shapes;
  for (const Adapter& each : adapters)
    shapes_of_model.erase(each.first), shapes_of_model.erase(each.second);
  for (const std::string& name : ones) shapes_of_model.erase(name);
  return shapes_of_model;
}

std::map<std::string, Shape> JobParameters::of_adapters() const {
  std::map<std::string, Shape> own = shapes;
  for (const std::string& name : frozen) own.erase(name);
  return own;
}

JobParameters parameters_of(const Job& job) {
  Plan plan;
  plan.training = job.plan.training;
  plan.training.micro_batch = 1;
  JobParameters found;
  Graph of_model = build_graph(job.model, plan.training);
  for (const Parameter& parameter : of_model.parameters)
    if (!parameter.trainable && !job.model.captured) found.ones.insert(parameter.name);
  const Graph graph = add_adapters(std::move(of_model), plan);
  for (const Parameter& parameter : graph.parameters) {
    found.shapes[parameter.name] = parameter.global_shape;
    found.whole[parameter.name] = parameter;
    if (parameter.part) found.parts[parameter.name] = *parameter.part;
    if (!parameter.trainable) found.frozen.insert(parameter.name);
  }
  if (plan.training.lora) {
    found.adapters = adapters_of(graph, *plan.training.lora);
    found.trained_whole = trained_whole(graph);
  }
  return found;
}

std::string checkpoint_folder(const Job& job, const std::string& given) {
  if (!given.empty()) return given;
  if (job.checkpoint) return job.checkpoint->folder;
  throw InputError(job.file + ": has no checkpoint.folder; name one with --checkpoint");
}

namespace {

void check_data(const Checkpoint& found) {
  for (std::size_t i = 0; i < found.shards(); ++i) found.check_shard(i);
}

SoundCheckpoint read_sound(const std::string& path, const std::set<std::string>& frozen) {
  SoundCheckpoint sound{path, Checkpoint(path), std::nullopt};
  check_data(sound.found);
  sound.base = base_of(sound.found, fs::path(path).parent_path().string(), frozen);
  if (sound.base) check_data(*sound.base);
  return sound;
}

}  // namespace

SoundCheckpoint newest_good(const std::string& folder, const Job& job,
                            const JobParameters& parameters,
                            const std::vector<std::string>& allowed, const Watch& watch) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw InputError(folder + ": is not a folder; name a checkpoint, or the folder of a run");
  std::vector<StepFolder> steps = step_folders(folder);
  const bool is_one = path_exists(folder + "/manifest.json");
  if (is_one) steps = {{0, folder}};
  const auto is_good = [&](const auto& check) {
    try {
      check();
      return true;
    } catch (const InputError& error) {
      if (is_one) throw;
      watch.note(std::string(error.what()) + "; this checkpoint is passed over");
      return false;
    }
  };
  for (const StepFolder& step : steps) {
    std::optional<SoundCheckpoint> sound;
    if (!is_good([&] { sound.emplace(read_sound(step.path, parameters.frozen)); })) continue;
    const Checkpoint& found = sound->found;
    if (sound->base)
      check_base(found.manifest(), *sound->base, fs::path(step.path).parent_path().string(),
                 parameters.frozen);
    check_same_weights(found.manifest(), step.path + "/manifest.json", job, allowed, watch);
    if (is_good([&] { found.check_holds(held_by(found, parameters.shapes, parameters.frozen)); }))
      return std::move(*sound);
  }
  throw InputError(folder + ": holds no good checkpoint");
}

}  // namespace meshwright::session
