#include "exec/checkpoint/resume.h"

#include <algorithm>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/pieces.h"
#include "models/core/error.h"
#include "models/program/factors.h"

namespace meshwright::exec {

namespace {

// Calls `work` on every rank. Returns on all ranks the message of the InputError of the first rank
// that throws one, or an empty string. Throws RunError on all ranks if `work` fails in another way
// on any rank, because then nobody knows whether the checkpoint is damaged.
template <typename Work>
std::string damage_found(const Work& work, const std::string& remedy, Communicator& all) {
  std::string damage, fault;
  try {
    work();
  } catch (const InputError& error) {
    damage = error.what();
  } catch (const std::exception& error) {
    fault = error.what();
  }
  fault = first_complaint(fault, all);
  if (!fault.empty()) throw RunError(fault + "; " + remedy);
  return first_complaint(damage, all);
}

std::string make_readable(const std::string& path) {
  return "make it readable, or move " + path + " away to go on from an older checkpoint";
}

// Throws InputError if the checkpoint's states are not those of `optimizer`, which has this many
// `states` without the average. Imported weights, which name no optimizer, are accepted for every
// optimizer.
void check_optimizer(const Checkpoint& found, const std::string& path, const std::string& optimizer,
                     int states) {
  const Manifest& manifest = found.manifest();
  if (manifest.optimizer.empty() && found.states() == 1) return;
  if (manifest.optimizer != optimizer)
    throw InputError(path + "/manifest.json: its states are of the optimizer '" +
                     manifest.optimizer + "', the job's is '" + optimizer + "'");
  // The average is not a state of the optimizer. A run may continue with or without one.
  if (const int has = found.states() - (found.average() >= 0 ? 1 : 0); has != states)
    throw InputError(path + "/manifest.json: /states: has " + std::to_string(has) + " states, " +
                     optimizer + " has " + std::to_string(states));
}

// Throws InputError on all ranks if an undamaged checkpoint is of another job, model or optimizer,
// or belongs to other frozen weights than `base`. Such a checkpoint is not skipped, because the run
// would then begin anew in its place.
void check_same_training(const Checkpoint& found, const Checkpoint* base, const std::string& path,
                         const ResumeOptions& options, Runtime& runtime, Communicator& all) {
  const std::string other_job = damage_found(
      [&] {
        if (options.check_job) options.check_job(found.manifest(), path + "/manifest.json");
        if (base != nullptr) check_base(found.manifest(), *base, options.folder, options.frozen);
      },
      make_readable(path), all);
  if (!other_job.empty()) throw InputError(other_job);
  const std::string complaint = damage_found(
      [&] {
        const StepSettings& training = runtime.program().settings->training;
        check_optimizer(found, path, options.optimizer,
                        training.saved_states() - (training.averages() ? 1 : 0));
        if (all.rank() == 0) found.check_holds(held_by(found, options.parameters, options.frozen));
      },
      make_readable(path), all);
  if (!complaint.empty())
    throw InputError(complaint + "; continue it with its own job, or name another folder");
}

// Returns on all ranks what `look` returns on rank 0, the only one that looks into the folder.
bool found_by_first(const std::function<bool()>& look, Communicator& all) {
  std::int64_t found = 0;
  damage_found(
      [&] {
        if (all.rank() == 0) found = look() ? 1 : 0;
      },
      "make it readable, or name another folder", all);
  all.broadcast(&found, sizeof found, 0);
  return found != 0;
}

// Returns on all ranks the step folders that rank 0 sees, the newest first.
std::vector<StepFolder> steps_of_all(const std::string& folder, Communicator& all) {
  std::vector<StepFolder> steps;
  damage_found(
      [&] {
        if (all.rank() == 0) steps = step_folders(folder);
      },
      "make it readable, or name another folder", all);
  auto count = static_cast<std::int64_t>(steps.size());
  all.broadcast(&count, sizeof count, 0);
  std::vector<std::int64_t> numbers(count);
  for (std::size_t i = 0; i < steps.size(); ++i) numbers[i] = steps[i].step;
  if (count > 0)
    all.broadcast(numbers.data(), count * static_cast<std::int64_t>(sizeof numbers[0]), 0);
  steps.clear();
  for (std::int64_t step : numbers) steps.push_back({step, step_folder(folder, step)});
  return steps;
}

constexpr int second_moment_place = 2;

// Reads Adafactor's factors of a matrix, which the checkpoint stores as its second moments. Every
// rank that holds a part of the matrix holds all of its factors.
void load_factors(const Checkpoint& checkpoint, int state, const StageParameter& member,
                  const Arena& memory) {
  const std::int64_t count = factor_count(factored_shape(member.parameter));
  const ParameterRun all{0, 0, count};
  checkpoint.read(member.parameter.name, state, {&all, 1},
                  HostView<float>(memory.backend(), memory.factors(member), count).data());
}

}  // namespace

std::string first_complaint(const std::string& own, Communicator& all) {
  const auto bytes = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> sizes(all.size());
  all.all_gather(&bytes, sizes.data(), sizeof bytes);
  const auto first = std::ranges::find_if(sizes, [](std::int64_t size) { return size > 0; });
  if (first == sizes.end()) return "";
  std::string text = own;
  text.resize(*first);
  all.broadcast(text.data(), *first, static_cast<int>(first - sizes.begin()));
  return text;
}

std::map<std::string, Shape> shapes_of(const std::vector<Program>& stages) {
  std::map<std::string, Shape> shapes;
  for (const Program& program : stages)
    for (const StageParameter& member : program.parameters)
      shapes[member.parameter.name] = member.parameter.global_shape;
  return shapes;
}

std::set<std::string> frozen_of(const std::vector<Program>& stages) {
  std::set<std::string> names;
  for (const Program& program : stages)
    for (const StageParameter& member : program.parameters)
      if (!member.parameter.trainable) names.insert(member.parameter.name);
  return names;
}

bool holds_any(const Checkpoint& checkpoint, const std::set<std::string>& frozen) {
  return std::ranges::any_of(frozen,
                             [&](const std::string& name) { return checkpoint.holds(name); });
}

std::optional<Checkpoint> base_of(const Checkpoint& checkpoint, const std::string& folder,
                                  const std::set<std::string>& frozen) {
  const Manifest& manifest = checkpoint.manifest();
  if (manifest.base.empty() || frozen.empty() || holds_any(checkpoint, frozen)) return std::nullopt;
  return Checkpoint(folder + "/" + manifest.base);
}

void check_base(const Manifest& manifest, const Checkpoint& base, const std::string& folder,
                const std::set<std::string>& frozen) {
  if (manifest.base_checksum == 0 || manifest.base_checksum == base.checksum_of(frozen)) return;
  throw InputError(folder + "/" + manifest.base +
                   "/manifest.json: /shards: are other weights than " +
                   "those that the adapters of step " + std::to_string(manifest.step) +
                   " were trained on; bring those back, or import these into another folder");
}

std::map<std::string, Shape> held_by(const Checkpoint& checkpoint,
                                     std::map<std::string, Shape> parameters,
                                     const std::set<std::string>& frozen) {
  if (!holds_any(checkpoint, frozen))
    for (const std::string& name : frozen) parameters.erase(name);
  return parameters;
}

void load(const Checkpoint& checkpoint, Runtime& runtime, const Checkpoint* base) {
  for (const StageParameter& member : runtime.program().parameters) {
    const Parameter& parameter = member.parameter;
    const Checkpoint* from = &checkpoint;
    if (!parameter.trainable && !checkpoint.holds(parameter.name)) from = base;
    if (from == nullptr) continue;
    const std::vector<ParameterRun> runs =
        runs_of(parameter, part_of(parameter, runtime.mesh(), runtime.coordinates()));
    const HeldWeights held = runtime.memory().weights(member);
    Backend& backend = runtime.memory().backend();
    const auto read_into = [&](const Checkpoint& file, int state, std::span<const ParameterRun> of,
                               const StoredArray& to, std::int64_t count) {
      as_exact(to.type, [&](auto number) {
        file.read(parameter.name, state, of,
                  StateView<decltype(number)>(backend, to, count).data());
      });
    };
    read_into(*from, 0, runs_within(runs, held.begin, held.count), held.data, held.count);
    if (!parameter.trainable) continue;
    const OwnedStates owned = runtime.memory().states(member);
    const std::vector<ParameterRun> own_runs = runs_within(runs, owned.begin, owned.count);
    for (int state = 1; state < checkpoint.states(); ++state) {
      const int place = index_of_state(state_names(), checkpoint.manifest().states[state]);
      if (place == second_moment_place && member.first_factor >= 0) {
        load_factors(checkpoint, state, member, runtime.memory());
        continue;
      }
      const StoredArray& data = owned.data[place];
      if (data.data == nullptr) continue;  // this rank has no such state
      read_into(checkpoint, state, own_runs, data, owned.count);
    }
  }
  if (checkpoint.average() < 0) runtime.memory().begin_averages();
  const Manifest& manifest = checkpoint.manifest();
  LossScaleState scale = runtime.loss_scale();
  if (runtime.scales_loss()) scale = from_numbers(manifest.numbers, scale);
  scale.skipped = manifest.step - manifest.updates;  // in every precision
  runtime.set_loss_scale(scale);
  runtime.set_histories(manifest.histories);
}

std::optional<Manifest> resume(const ResumeOptions& options, Runtime& runtime, Communicator& all,
                               const std::function<void(const std::string&)>& say) {
  bool changed = false;
  // The folder's mark is read only after the newest checkpoints have been looked at, because an
  // error about a checkpoint that cannot be read says better what to do.
  const auto imported = [&] {
    return found_by_first([&] { return began_with_imported_weights(options.folder); }, all);
  };
  for (const StepFolder& step : steps_of_all(options.folder, all)) {
    std::optional<Checkpoint> found, base;
    const auto check_shards = [&](const Checkpoint& of) {
      for (std::size_t i = 0; i < of.shards(); ++i)
        if (static_cast<int>(i % static_cast<std::size_t>(all.size())) == all.rank())
          of.check_shard(i);
    };
    std::string complaint = damage_found(
        [&] {
          found.emplace(step.path);
          check_shards(*found);
          base = base_of(*found, options.folder, options.frozen);
          if (base) check_shards(*base);
        },
        make_readable(step.path), all);
    if (complaint.empty()) {
      check_same_training(*found, base ? &*base : nullptr, step.path, options, runtime, all);
      changed = true;
      complaint = damage_found([&] { load(*found, runtime, base ? &*base : nullptr); },
                               make_readable(step.path), all);
    }
    if (complaint.empty()) {
      runtime.refresh_working_copies();
      const bool averages = runtime.program().settings->training.averages();
      if (all.rank() == 0 && found->states() > 1 && averages != (found->average() >= 0))
        say(step.path + (averages ? ": holds no average of the weights; training.ema_decay begins "
                                    "one with the weights it holds"
                                  : ": holds an average of the weights, which goes no further: the "
                                    "job has no training.ema_decay"));
      Manifest manifest = found->manifest();
      if (holds_any(*found, options.frozen)) {
        manifest.base = step.path.substr(step.path.rfind('/') + 1);
        manifest.base_checksum = found->checksum_of(options.frozen);
      }
      manifest.imported = imported();
      return manifest;
    }
    if (all.rank() == 0) say(complaint + "; this checkpoint is passed over");
  }
  if (changed)
    throw RunError(options.folder + ": no checkpoint could be read to its end; see above");
  if (imported())
    throw InputError(
        options.folder +
        ": the run began with imported weights, and none of its checkpoints is good" +
        (options.frozen.empty() ? "" : " together with the weights that its adapters belong to") +
        "; bring them back from a copy, or import the weights again into another folder");
  return std::nullopt;
}

}  // namespace meshwright::exec
