// Imports settings of other frameworks to a job file. Nothing is executed, and nothing is dropped
// silently.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "tools/interop/target.h"

namespace meshwright {

// A setting that was read, and what became of it.
struct ReadSetting {
  std::string name;   // as its file spells it: "--micro-batch-size"
  std::string value;  // as JSON
  std::string place;  // "run.sh:12"
  enum class Fate : std::uint8_t { acts, without_meaning, unknown } fate = Fate::unknown;
  std::vector<std::string> keys;  // acts: those of the job file that its rule set
  std::string reason;             // without_meaning
};

struct ImportOptions {
  std::optional<Framework> format;     // --format; none: the files say it
  std::vector<std::string> overrides;  // --set, on the job that is made
  bool allow_unknown = false;          // unknown settings are listed, not refused
};

struct Imported {
  Framework framework;
  nlohmann::json job;  // accepted by read_job()
  std::vector<ReadSetting> settings;
  std::vector<std::string> remarks;  // what the job file cannot say, a line each
};

// Returns the job of `files`. These are the files of settings and the files that those name: a
// config.json of the model, a launch file. Throws InputError with the file and the line for
// unreadable files, unknown settings and contradictions.
Imported import_settings(const std::vector<std::string>& files, const ImportOptions& options,
                         const MachineLookup& lookup);

// Holds the settings of files, read by their format only. import_settings() and tests use it.
struct ReadFiles {
  std::string name;        // of the job: that of the first file of settings, without its ending
  std::string first_file;  // for messages about what is missing
  Framework framework = Framework::none;
  Settings settings;
  std::optional<nlohmann::json> model_config;  // of a Hugging Face config.json among them
};
ReadFiles read_settings(const std::vector<std::string>& files, std::optional<Framework> format);

// Applies the rules to settings that were read. Completes what read_settings() found from the
// model.
Imported import_from(ReadFiles files, const ImportOptions& options, const MachineLookup& lookup);

}  // namespace meshwright
