#include "tools/session/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "hwprofiles/cores.h"
#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "sim/rehearsal/recording.h"
#include "tools/interop/expressible.h"
#include "tools/session/choose.h"
#include "tools/session/engine.h"
#include "tools/session/questions.h"
#include "tools/session/worded_job.h"
#include "tools/session/write_file.h"

namespace meshwright::session {

namespace {

// Returns the profile that --profile names, if it is that of machine `name`. Throws InputError if
// there is no such file.
std::optional<Machine> given_profile_of(const std::string& name, const MachineRequest& request) {
  if (request.profile.empty()) return std::nullopt;
  if (!std::filesystem::exists(request.profile))
    throw InputError(request.profile + ": no such profile");
  Machine machine = load_machine_file(request.profile);
  const auto known = machine_if_known(name);
  if (machine.name != (known ? known->name : name)) return std::nullopt;
  return machine;
}

// Returns the profile that is kept at `path`, or nothing if there is none or it cannot be read.
std::optional<Machine> read_kept(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    return load_machine_file(path);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Keeps a profile for the day. Errors are ignored, because they only cost the next call some
// seconds.
void keep(const Machine& machine, const std::string& path) {
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file(path, text_of(machine));
  } catch (const std::exception&) {
  }
}

// Returns a quick profile of this computer: the one that is kept, unless the request asks to
// measure again, or a new one, which is then kept.
Machine measured_today(const MachineRequest& request, const Watch::Say& note) {
  const std::string path = request.kept_profile ? request.kept_profile() : "";
  if (!path.empty() && !request.measure_afresh)
    if (std::optional<Machine> kept = read_kept(path)) {
      note(
          "no profile of this computer yet: the quick one that was measured today is used "
          "(--measure-afresh measures again, `meshwright calibrate` thoroughly)");
      return *std::move(kept);
    }
  note(
      "no profile of this computer yet: measuring it for a few seconds (`meshwright calibrate` "
      "does it thoroughly and keeps the result)");
  Machine machine = request.measure_here();
  if (!path.empty()) keep(machine, path);
  return machine;
}

MachineLoader without_given_prices(const MachineRequest& request, const Watch& watch) {
  auto local = std::make_shared<std::optional<Machine>>();
  return [request, note = watch.note, local](const std::string& name) -> Machine {
    if (name != "local") {
      auto given = given_profile_of(name, request);
      return given ? *given : load_known_machine(name);
    }
    if (*local) return **local;
    if (std::filesystem::exists(request.local_profile)) {
      *local = load_machine_file(request.local_profile);
    } else {
      if (!request.profile.empty()) throw InputError(request.profile + ": no such profile");
      if (!request.measure_here)
        throw InputError(request.local_profile +
                         ": no profile of this computer, and the caller measures none");
      *local = measured_today(request, note);
    }
    return **local;
  };
}

}  // namespace

MachineLoader machine_loader(const MachineRequest& request, const Watch& watch) {
  MachineLoader load = without_given_prices(request, watch);
  if (request.prices.empty()) return load;
  return [load, given = read_prices(request.prices)](const std::string& name) {
    Machine machine = load(name);
    const Prices rows = prices_of(given, machine.name);
    machine.prices.insert(machine.prices.begin(), rows.begin(), rows.end());
    return machine;
  };
}

namespace {

void check_is_text(const std::string& text) {
  try {
    static_cast<void>(json(text).dump());
  } catch (const json::type_error&) {
    throw InputError("--set: a value is not UTF-8 text");
  }
}

// Returns what is known of this computer before it is measured. It is called if there is no profile
// of it.
MachineFacts facts_of_unmeasured() {
  MachineFacts facts;
  facts.is_cpu = gpus_here() == 0;
  if (facts.is_cpu) return facts;
  const int generation = gpu_here(0).generation;
  facts.gpus = gpus_here();
  facts.has_bf16 = facts.has_tf32 = generation >= 80;
  facts.has_fp8 = generation >= 89;
  facts.has_flash3 = generation == 90;
  facts.has_cudnn_attention = generation >= 90;
  return facts;
}

// Returns the facts of machine `local`. If its profile is that of a CPU, the profile's number of
// cores is not used, because as many processes as the job specifies may share them.
MachineFacts facts_of_local(const MachineRequest& request) {
  if (!std::filesystem::exists(request.local_profile))
    return request.profile.empty() ? facts_of_unmeasured() : machine_facts("local");
  try {
    const MachineFacts facts = facts_of(load_machine_file(request.local_profile));
    if (!facts.is_cpu) return facts;
  } catch (const InputError&) {
    // The error is reported when the machine is loaded.
  }
  return machine_facts("local");
}

// Throws InputError if no machine of the job has the profile's name, because the profile would
// change nothing.
void check_profile_is_used(const MachineRequest& request, const Job& job) {
  const std::vector<std::string> machines = machines_of(job.cluster);
  const auto uses = [&](const std::string& name) {
    return name == "local" || given_profile_of(name, request).has_value();
  };
  if (request.profile.empty() || std::ranges::any_of(machines, uses)) return;
  const std::string name = load_machine_file(request.profile).name;
  if (name == "local") return;  // `local` may be meant for another job
  throw InputError(fmt::format("{}: is a profile of '{}', the job's machine is '{}'",
                               request.profile, name, machines.front()));
}

void warn_of_crowding(const Job& job, const Watch& watch) {
  const int cores = usable_cores();
  const std::vector<std::string> machines = machines_of(job.cluster);
  if (job.cluster.processes_per_host <= cores ||
      std::ranges::find(machines, "local") == machines.end())
    return;
  watch.warn(fmt::format(
      "{} processes share the {} cores of this computer; a step takes longer than on as many cores",
      job.cluster.processes_per_host, cores));
}

}  // namespace

Job read_job_of(const JobRequest& wanted, const Watch& watch) {
  const JobRequest request = with_words(wanted, watch);
  for (const std::string& text : request.set) check_is_text(text);
  std::vector<std::string> overrides = launch_overrides(request.sagemaker);
  if (!overrides.empty())
    watch.note(fmt::format("note: {}: SageMaker's environment says: {}", request.file,
                           fmt::join(overrides, " ")));
  for (const std::string& asked : question_overrides(request)) overrides.push_back(asked);
  if (const std::string note = deadline_note(request.by, request.today); !note.empty())
    watch.note("note: " + note);
  overrides.insert(overrides.end(), request.set.begin(), request.set.end());
  const auto facts = [&](const std::string& name) {
    if (name == "local") return facts_of_local(request);
    const auto given = given_profile_of(name, request);
    return given ? facts_of(*given) : machine_facts(name);
  };
  const std::string text = request.text ? *request.text : read_file(request.file);
  if (is_recording(text))
    throw InputError(request.file +
                     ": is a recorded step of a script, not a job; `simulate`, `sensitivity`, "
                     "`explain --measured` and `rehearse --recording` take it");
  Job job = read_job_text(text, request.file, overrides, facts,
                          request.searches ? LeftOut::is_open : LeftOut::has_default);
  check_profile_is_used(request, job);
  if (leaves_a_choice(job)) take_ways_of_framework(job);
  for (const std::string& warning : job.warnings) watch.warn(warning);
  for (const std::string& note : job.notes) watch.note(fmt::format("note: {}: {}", job.file, note));
  warn_of_crowding(job, watch);
  return job;
}

}  // namespace meshwright::session
