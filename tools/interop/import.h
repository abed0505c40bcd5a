// Imports settings of other frameworks to a job file. Nothing is executed, and nothing is dropped
// silently.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "models/job/job.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

// A setting that was read, and what became of it.
struct ReadSetting {
  std::string name;   // as its file spells it: "--micro-batch-size"
  std::string value;  // as JSON
  std::string place;  // "run.sh:12"
  enum class Fate : std::uint8_t { acts, without_meaning, unknown } fate = Fate::unknown;
  std::vector<std::string> keys;  // acts: the keys of the job that its rule set
  std::string reason;             // without_meaning
};

// A line of the short table of what an import understood: a key of the job, its value, and where
// the value came from: a setting with its place, `--set`, or nothing if no setting says it.
struct Understood {
  std::string title, value, from;
};

struct ImportOptions {
  std::optional<Framework> format;                  // --format; unset: recognized from the files
  std::vector<std::string> overrides;               // --set, on the job that is made
  bool allow_unknown = false;                       // unknown settings are listed, not rejected
  std::map<std::string, std::string> defines = {};  // --define, variables of a shell script
};

struct Imported {
  Framework framework;
  json job;  // accepted by read_job()
  std::vector<ReadSetting> settings;
  std::vector<std::string> remarks;  // what the job file cannot say, a line each
  std::vector<Understood> understood;
};

// Returns the job of `files`: the files of settings, and those that belong to them, such as the
// model's config.json or a launch file. A file that a setting names is read if it lies beside
// (read_files.cpp). Throws InputError with the file and the line for unreadable files, unknown
// settings and contradictions.
Imported import_settings(const std::vector<std::string>& files, const ImportOptions& options,
                         const MachineLookup& lookup);

// The settings of files, read by their format, before any rule is applied. import_settings() and
// tests use it.
struct ReadFiles {
  std::string name;        // of the job: that of the first file of settings, without its ending
  std::string first_file;  // for messages about what is missing
  Framework framework = Framework::meshwright;
  Settings settings;
  std::optional<json> model_config;  // of a Hugging Face config.json among them
};
ReadFiles read_settings(const std::vector<std::string>& files, std::optional<Framework> format,
                        const std::map<std::string, std::string>& defines = {});

// Returns the job that the rules make of settings that read_settings() returned. Throws InputError
// as import_settings().
Imported import_from(ReadFiles files, const ImportOptions& options, const MachineLookup& lookup);

}  // namespace meshwright::interop
