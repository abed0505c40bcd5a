// Reads settings of other frameworks and makes a job file of them. Scripts are only interpreted: no
// program is started.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "models/job/job.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

// A setting that was found in the files, and what became of it.
struct ReadSetting {
  std::string name;   // as messages spell it: "--micro-batch-size"
  std::string value;  // as JSON
  std::string place;  // "run.sh:12"
  enum class Fate : std::uint8_t { acts, without_meaning, unknown } fate = Fate::unknown;
  std::vector<std::string> keys;  // acts: the keys of the job that the rules which read it set
  std::string reason;             // without_meaning: why it has none
};

// A line of the short table of what an import understood: the title of a key, its value, and where
// the value came from: a setting with its place, `--set`, "no setting says it", or nothing.
struct Understood {
  std::string title, value, from;
};

struct ImportOptions {
  std::optional<Framework> format;     // --format; unset: recognized from the files
  std::vector<std::string> overrides;  // --set, on the job that is made
  // Accepts unknown settings, except those that turn on a degree, experts, a stage or a precision.
  bool allow_unknown = false;
  std::map<std::string, std::string> defines = {};  // --define, variables of scripts
};

struct Imported {
  Framework framework;
  json job;  // accepted by read_job()
  std::vector<ReadSetting> settings;
  // One line for each thing that a job file cannot express or that was assumed.
  std::vector<std::string> remarks;
  std::vector<Understood> understood;
};

// Returns the job of `files`: the files of settings, and those that belong to them, such as the
// model's config.json or a launch file. Files that settings name are read too if they are found
// (read_files.cpp). Throws InputError for unreadable files, missing values, contradictions and
// unknown settings. ImportOptions::allow_unknown says which unknown settings are accepted.
Imported import_settings(const std::vector<std::string>& files, const ImportOptions& options,
                         const MachineLookup& lookup);

// The settings of files, read by their format, before any rule is applied. import_settings() passes
// them to import_from(), and tests use both steps.
struct ReadFiles {
  std::string name;        // of the job: that of `first_file`, without folders and ending
  std::string first_file;  // the first given file that holds settings; messages name it
  Framework framework = Framework::meshwright;
  Settings settings;
  std::optional<json> model_config;  // of a Hugging Face config.json, if one was read
};
ReadFiles read_settings(const std::vector<std::string>& files, std::optional<Framework> format,
                        const std::map<std::string, std::string>& defines = {});

// Returns the job that the rules make of settings that read_settings() returned. Throws InputError
// for missing values, contradictions and unknown settings, as import_settings() does.
Imported import_from(ReadFiles files, const ImportOptions& options, const MachineLookup& lookup);

}  // namespace meshwright::interop
