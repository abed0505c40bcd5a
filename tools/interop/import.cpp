#include "tools/interop/import.h"

#include <algorithm>
#include <limits>

#include "models/core/error.h"
#include "models/job/sections.h"
#include "tools/interop/recognize.h"

namespace meshwright::interop {

namespace {

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return same_name(name, pattern);
  pattern.remove_suffix(1);
  return same_name(name.substr(0, pattern.size()), pattern);
}

std::string reason_of(const InteropTarget& target, std::string_view name) {
  for (const WithoutMeaning& row : target.without_meaning)
    if (matches(row.pattern, name)) return std::string(row.reason);
  return {};
}

// Applies the rules one after the other, and records which settings each rule read.
void apply_rules(const Rules& rules, Settings& from, JobDraft& to, std::vector<ReadSetting>& read) {
  for (const Rule& rule : rules) {
    std::vector<const Setting*> mine;
    from.on_read([&](const Setting& setting) {
      if (mine.empty()) to.comes_from(setting.place + ": " + from.spelled(setting.name));
      if (std::ranges::find(mine, &setting) == mine.end()) mine.push_back(&setting);
    });
    to.comes_from({});
    to.take_news();
    rule.read(from, to);
    from.on_read({});
    const std::vector<std::string> keys = to.take_news();
    for (const Setting* setting : mine) {
      const auto known = std::ranges::find_if(
          read, [&](const ReadSetting& each) { return each.name == from.spelled(setting->name); });
      if (known == read.end())
        read.push_back({from.spelled(setting->name),
                        setting->value.dump(),
                        setting->place,
                        ReadSetting::Fate::acts,
                        keys,
                        {}});
      else
        known->keys.insert(known->keys.end(), keys.begin(), keys.end());
    }
  }
  to.comes_from({});
}

// Returns the known name that is nearest to `name`, both as the files spell them, because the rules
// may have other names.
std::string nearest_name(const Settings& from, const std::string& name,
                         const std::vector<std::string>& known) {
  std::vector<std::string> spelled;
  for (const std::string& each : known) spelled.push_back(from.spelled(each));
  return nearest(from.spelled(name), spelled);
}

// Adds the settings that no rule read to `read`, with the reason why they have no meaning. Throws
// InputError for an unknown setting unless `allow_unknown` is set.
void explain_rest(const InteropTarget& target, const Settings& from, bool allow_unknown,
                  std::vector<ReadSetting>& read) {
  std::vector<std::string> known;
  for (const Rule& rule : target.rules())
    known.insert(known.end(), rule.settings.begin(), rule.settings.end());
  for (const Setting& setting : from.all()) {
    if (setting.is_read) continue;
    const std::string reason = setting.value.is_null() ? "says null: left to its default"
                                                       : reason_of(target, setting.name);
    if (reason.empty() && !allow_unknown) {
      const std::string near = nearest_name(from, setting.name, known);
      throw InputError(setting.place + ": " + from.spelled(setting.name) + ": unknown setting of " +
                       std::string(name_of(target.framework)) + "; " +
                       (near.empty() ? "" : "did you mean '" + near + "'? ") +
                       "--allow-unknown lists it instead");
    }
    read.push_back(
        {from.spelled(setting.name),
         setting.value.dump(),
         setting.place,
         reason.empty() ? ReadSetting::Fate::unknown : ReadSetting::Fate::without_meaning,
         {},
         reason});
  }
}

std::optional<int> ranks_of(const json& job, const MachineLookup& lookup) {
  if (!job.contains("cluster") || !job["cluster"].is_object()) return std::nullopt;
  const json& cluster = job["cluster"];
  const auto count = [&](const char* key) -> double {
    return cluster.contains(key) && cluster[key].is_number() ? cluster[key].get<double>() : 0;
  };
  const double hosts = cluster.contains("count") ? count("count") : 1;
  double each = count("processes_per_host");
  if (!cluster.contains("processes_per_host")) {
    if (!cluster.contains("machine") || !cluster["machine"].is_string()) return std::nullopt;
    try {
      each = lookup(cluster["machine"].get<std::string>()).gpus;
    } catch (const InputError&) {  // the reader of jobs reports it; "auto" is valid
      return std::nullopt;
    }
  }
  // The reader of jobs rejects any other number of ranks later.
  const double ranks = hosts * each;
  const bool is_count = ranks >= 1 && ranks <= std::numeric_limits<int>::max();
  return is_count ? std::optional(static_cast<int>(ranks)) : std::nullopt;
}

// Returns the message of a violation that the job's reader found. It begins with the setting that
// the key came from, because users know the setting, and names the key in parentheses. If no
// setting sets a missing key, the message says to give it with --set. Otherwise it is unchanged.
std::string in_words_of_settings(const Violation& violation, const std::string& file,
                                 const JobDraft& draft) {
  if (violation.file != file || violation.key.empty()) return text_of(violation);
  const std::string &pointer = violation.key, problem = problem_of(violation);
  std::string origin = draft.origin_of_pointer(pointer);
  // If the degrees do not fit together, the error names the setting of the first degree that is not
  // 1.
  for (const char* key : {"tensor", "pipeline", "context", "expert", "data"})
    if (const std::string name = std::string("parallelism.") + key;
        origin.empty() && pointer == "/parallelism" && draft.value(name) != 1)
      origin = draft.origin_of_pointer("/parallelism/" + std::string(key));
  if (!origin.empty()) return origin + ": " + problem + " (" + pointer + " of the job)";
  std::string key = pointer.substr(1);
  std::ranges::replace(key, '/', '.');
  if (problem.starts_with("missing") || problem.find("is missing") != std::string::npos)
    return file + ": no setting says " + key + "; give it with --set " + key + "=VALUE";
  return text_of(violation);
}

void check_complete(const JobDraft& draft, const std::string& file) {
  for (const char* key :
       {"model", "cluster.machine", "training.global_batch", "training.sequence_length"})
    if (!draft.has(key) &&
        !(draft.has("instance_type") && std::string_view(key) == "cluster.machine"))
      throw InputError(file + ": no setting says " + key + "; give it with --set " + key +
                       (std::string_view(key) == "model" ? "=NAME (of the zoo, or the path of a "
                                                           "config.json)"
                                                         : "=VALUE"));
}

}  // namespace

Imported import_from(ReadFiles files, const ImportOptions& options, const MachineLookup& lookup) {
  const InteropTarget& target = interop_target(files.framework);
  Imported imported;
  imported.framework = files.framework;
  JobDraft draft;
  draft.count_ranks_by([&](const json& job) { return ranks_of(job, lookup); });
  const std::string name = files.name;
  draft.set("name", name);
  if (files.model_config) draft.set("model", *files.model_config);
  draft.override_with(options.overrides);
  if (target.translate != nullptr)
    files.settings = target.translate(std::move(files.settings), draft);
  files.settings.is_of(files.first_file);
  apply_rules(target.rules(), files.settings, draft, imported.settings);
  explain_rest(target, files.settings, options.allow_unknown, imported.settings);
  draft.override_with(options.overrides);
  check_complete(draft, files.first_file);
  imported.job = draft.job();
  imported.remarks = draft.remarks();
  try {
    read_job(imported.job, files.first_file, ".", lookup);
  } catch (const InputError& error) {
    throw InputError(in_words_of_settings(error.violation(), files.first_file, draft));
  }
  return imported;
}

Imported import_settings(const std::vector<std::string>& files, const ImportOptions& options,
                         const MachineLookup& lookup) {
  return import_from(read_settings(files, options.format), options, lookup);
}

}  // namespace meshwright::interop
