// Runs the commands `import JOB-OUT --from FILE...`, which turns settings of another framework into
// a job file, and `export JOB --for FRAMEWORK --to FOLDER`, which writes a plan as settings of
// another framework.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "models/core/error.h"
#include "models/core/json.h"
#include "sim/planner/clusters.h"
#include "sim/planner/objective.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/interop/export.h"
#include "tools/interop/import.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/choose.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

namespace fs = std::filesystem;
using Fate = ReadSetting::Fate;

// Returns whether `from` names weights instead of settings: it has one entry, which is a folder or
// ends as files of safetensors do.
bool holds_weights(const std::vector<std::string>& from) {
  return from.size() == 1 &&
         (fs::is_directory(from.front()) || from.front().ends_with(".safetensors") ||
          from.front().ends_with(".safetensors.index.json"));
}

const char* word_of(Fate fate) {
  return fate == Fate::acts              ? "acts"
         : fate == Fate::without_meaning ? "without meaning here"
                                         : "unknown";
}

json settings_json(const Imported& imported) {
  json all = json::array();
  for (const ReadSetting& each : imported.settings) {
    json row = {{"setting", each.name},
                {"value", json::parse(each.value)},
                {"place", each.place},
                {"fate", word_of(each.fate)}};
    if (!each.keys.empty()) row["keys"] = each.keys;
    if (!each.reason.empty()) row["reason"] = each.reason;
    all.push_back(std::move(row));
  }
  return all;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t most = 40;
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

// Returns the keys that a setting set, with the values that are not objects or lists
// ("parallelism.tensor 8"). Returns "(as without it)" if the setting set no key.
std::string keys_text(const ReadSetting& setting, const json& job) {
  std::string text;
  std::set<std::string> said;
  for (const std::string& key : setting.keys) {
    std::string pointer = "/" + key;
    std::ranges::replace(pointer, '.', '/');
    const json value = job.value(json::json_pointer(pointer), json());
    if (!said.insert(key).second) continue;
    text += (text.empty() ? "" : ", ") + key;
    if (!value.is_structured())
      text += " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text.empty() ? "(as without it)" : text;
}

// Prints the settings that act, one in a line, then the others, grouped by the reason why they do
// not act, and last the notes of the import.
void print_settings(const Imported& imported) {
  std::size_t width = 0;
  const auto said = [](const ReadSetting& each) {
    return each.value == "true" ? each.name : each.name + " " + shortened(each.value);
  };
  for (const ReadSetting& each : imported.settings)
    if (each.fate == Fate::acts) width = std::max(width, said(each).size());
  std::map<std::string, std::string> others;  // names of settings, by the reason
  for (const ReadSetting& each : imported.settings) {
    if (each.fate == Fate::acts) {
      print_to(stdout, "{:<{}}  {}\n", said(each), width, keys_text(each, imported.job));
      continue;
    }
    std::string& names = others[each.fate == Fate::unknown ? "unknown" : each.reason];
    names += (names.empty() ? "" : ", ") + each.name;
  }
  if (!others.empty()) std::printf("\nwithout meaning here:\n");
  for (const auto& [reason, names] : others) print_to(stdout, "  {}: {}\n", reason, names);
  for (const std::string& remark : imported.remarks) print_to(stdout, "note: {}\n", remark);
}

json understood_json(const Imported& imported) {
  json all = json::array();
  for (const Understood& each : imported.understood)
    all.push_back({{"what", each.title}, {"value", each.value}, {"from", each.from}});
  return all;
}

// Prints a short table that shows a person whether the files were understood.
void print_understood(const Imported& imported) {
  std::size_t titles = 0, values = 0;
  for (const Understood& each : imported.understood) {
    titles = std::max(titles, each.title.size());
    values = std::max(values, each.value.size());
  }
  std::printf("\nunderstood:\n");
  for (const Understood& each : imported.understood)
    print_to(stdout, "  {:<{}}  {:<{}}  {}\n", each.title, titles, each.value, values,
             each.from.empty() ? "the framework's default" : each.from);
}

std::int64_t count_of(const Imported& imported, Fate fate) {
  return std::ranges::count_if(imported.settings,
                               [fate](const ReadSetting& each) { return each.fate == fate; });
}

// Reads the settings into a job, and writes it to the file that is the operand, if there is one.
// Throws InputError if that file exists.
Imported imported_job(const Options& options, const Watch& watch) {
  if (options.from.empty())
    throw InputError(
        "import: --from names the files of settings (or, of weights, a folder with "
        "model.safetensors)");
  const std::string out = options.operands.empty() ? "" : options.operands.front();
  if (!out.empty()) {
    if (fs::exists(out)) throw InputError(out + ": exists; name a new job file");
    check_writable("import", out, options.from);
  }
  ImportOptions how;
  if (!options.format.empty()) how.format = framework_of(options.format);
  how.overrides = options.set;
  how.allow_unknown = options.allow_unknown;
  for (const std::string& each : options.define) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError("--define " + each + ": is not NAME=VALUE");
    how.defines[each.substr(0, equals)] = each.substr(equals + 1);
  }
  const MachineLoader load = asked_machines(options, watch);
  Imported imported = import_settings(
      options.from, how, [&](const std::string& name) { return facts_of(load(name)); });
  if (!out.empty()) write_file(out, json_text(imported.job));
  return imported;
}

std::string json_of(const Options& options, const Imported& imported) {
  json answer = {{"framework", name_of(imported.framework)},
                 {"job", imported.job},
                 {"settings", settings_json(imported)},
                 {"understood", understood_json(imported)},
                 {"remarks", imported.remarks}};
  if (!options.operands.empty()) answer["wrote"] = options.operands.front();
  return json_text(answer, true);
}

int run_import(const Options& options) {
  if (options.operands.size() != 1)
    throw InputError("import: name the job file to write, and with --from what to read");
  if (holds_weights(options.from)) return run_import_weights(options);
  const Imported imported = imported_job(options, printed_watch());
  if (options.json) {
    print_text(json_of(options, imported));
    return done;
  }
  print_settings(imported);
  print_understood(imported);
  print_to(stdout,
           "\nwrote {}: of {} settings of {} {} act, {} are without meaning here, {} unknown\n",
           options.operands.front(), imported.settings.size(), name_of(imported.framework),
           count_of(imported, Fate::acts), count_of(imported, Fate::without_meaning),
           count_of(imported, Fate::unknown));
  return done;
}

std::string answer_import(const Options& options, const Watch& watch) {
  if (options.operands.size() > 1) throw InputError("import: name one job file to write");
  if (holds_weights(options.from))
    throw InputError("import: " + options.from.front() +
                     " holds weights; the command `import-weights` reads them");
  return json_of(options, imported_job(options, watch));
}

void write_files(const std::string& folder, const std::vector<ExportedFile>& files) {
  for (const ExportedFile& file : files)
    if (fs::exists(fs::symlink_status(fs::path(folder) / file.name)))
      throw InputError("--to " + folder + ": holds " + file.name + " already; name another folder");
  check_writable("--to", folder + "/" + files.front().name);
  fs::create_directories(folder);
  for (const ExportedFile& file : files) {
    const std::string path = folder + "/" + file.name;
    fs::create_directories(fs::path(path).parent_path());
    write_file(path, file.text);
    if (file.is_program) fs::permissions(path, fs::perms(0755));
  }
}

// Sets the number of steps from the length of the job's objective, unless the job gives a number of
// steps. If the job has neither, adds a warning that one step is written.
void settle_steps(const Job& job, const Cluster& cluster, double step_time_s, Plan& plan,
                  std::vector<std::string>& warnings) {
  if (job.has_steps) return;
  if (!has_length(job)) {
    warnings.emplace_back(
        "one step is written, as the job does not say how many; give training.steps or "
        "objective.tokens");
    return;
  }
  const WholeJob whole = JobOnCluster(job, plan.training, cluster).whole(step_time_s);
  plan.training.steps = whole.steps(plan.training);
}

struct Export {
  Chosen chosen;
  Prediction prediction;
  Exported exported;
};

// Plans the job and writes the plan as the framework's settings, into the folder of --to if there
// is one.
Export exported_job(const Options& options, const Watch& watch) {
  if (options.framework.empty())
    throw InputError("export: --for names the framework: " + list_of(framework_names()));
  const Framework framework = framework_of(options.framework);
  if (options.to.empty() && !options.json)
    throw InputError(
        "export: --to names the folder to write; with --json the files may be printed");
  const Job job = asked_job(options, watch);
  Export all;
  all.chosen = choose_plan(job, asked_machines(options, watch), watch);
  const Chosen& chosen = all.chosen;
  all.prediction = predict_chosen(job, chosen);
  Plan plan = chosen.compiled.plan;
  std::vector<std::string> warnings;
  settle_steps(job, chosen.cluster, all.prediction.step_time_s, plan, warnings);
  all.exported = export_plan(job, plan, chosen.machine, chosen.count,
                             chosen.cluster.ranks() / chosen.count, framework, options.launchers);
  all.exported.warnings.insert(all.exported.warnings.end(), warnings.begin(), warnings.end());
  if (!options.to.empty()) write_files(options.to, all.exported.files);
  return all;
}

std::vector<std::string> names_of(const Options& options, const Exported& exported) {
  std::vector<std::string> names;
  for (const ExportedFile& file : exported.files)
    names.push_back(options.to.empty() ? file.name : options.to + "/" + file.name);
  return names;
}

std::string json_of(const Options& options, const Export& all) {
  json answer = {{"framework", options.framework},
                 {"plan", short_plan_text(all.chosen.compiled.plan)},
                 {"cluster", {{"machine", all.chosen.machine}, {"count", all.chosen.count}}},
                 {"step_time_s", all.prediction.step_time_s},
                 {"peak_memory_bytes", all.prediction.peak_memory_bytes},
                 {"warnings", all.exported.warnings},
                 {"files", names_of(options, all.exported)}};
  if (options.to.empty())
    for (const ExportedFile& file : all.exported.files) answer["contents"][file.name] = file.text;
  return json_text(answer, true);
}

int run_export(const Options& options) {
  if (options.framework.empty() && options.format.empty() && options.launchers.empty())
    return run_export_weights(options);
  const Export all = exported_job(options, shown_watch());
  if (options.json) {
    print_text(json_of(options, all));
    return done;
  }
  print_to(stdout, "{} on {} x {}: {} a step, {} of memory\n",
           short_plan_text(all.chosen.compiled.plan), all.chosen.count, all.chosen.machine,
           show_seconds(all.prediction.step_time_s),
           show_bytes(static_cast<double>(all.prediction.peak_memory_bytes)));
  for (const std::string& warning : all.exported.warnings)
    print_to(stderr, "warning: {}\n", warning);
  for (const std::string& name : names_of(options, all.exported))
    print_to(stdout, "wrote {}\n", name);
  return done;
}

std::string answer_export(const Options& options, const Watch& watch) {
  return json_of(options, exported_job(options, watch));
}

}  // namespace

const Command import_command = {
    "import",
    "JOB",
    "the job file to write (of weights: the job whose first checkpoint they become)",
    "read settings of another framework into a job file",
    "json wide set define profile measure-afresh from format allow-unknown",
    run_import,
    "Reads the settings of Megatron-LM, Megatron-Bridge and NeMo, torchtitan, DeepSpeed, "
    "accelerate, SageMaker or HyperPod. Each setting acts, or says why it has no meaning here. "
    "Nothing that is read is executed. docs/interop.md has every setting.",
    answer_import};

const Command export_command = {
    "export",
    "JOB",
    job_help,
    "write a plan as settings of another framework, ready to start",
    "json wide set by budget profile measure-afresh prices for launcher to checkpoint",
    run_export,
    "Writes the settings, and what starts them with Slurm, torchrun, mpirun or Kubernetes. `plan "
    "--for FRAMEWORK` looks for a plan among those that the framework can run. docs/interop.md has "
    "every setting.",
    answer_export};

}  // namespace meshwright::tools
