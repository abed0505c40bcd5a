// Settings of other frameworks to a job file. Nothing is executed, nothing is dropped in silence.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "tools/interop/target.h"

namespace meshwright {

// What became of one setting.
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

// `files`: the settings, and beside them what they name: a config.json of the model, a launch file.
// InputError with the file and the line: unreadable files, unknown settings, contradictions.
Imported import_settings(const std::vector<std::string>& files, const ImportOptions& options,
                         const MachineLookup& lookup);

// The settings of files by their format, without their meaning; for tests and import_settings().
struct ReadFiles {
  std::string name;        // of the job: that of the first file of settings, without its ending
  std::string first_file;  // for messages about what is missing
  Framework framework = Framework::none;
  Settings settings;
  std::optional<nlohmann::json> model_config;  // of a Hugging Face config.json among them
};
ReadFiles read_settings(const std::vector<std::string>& files, std::optional<Framework> format);

// Rules applied to settings that were read; what read_settings() found is completed from the model.
Imported import_from(ReadFiles files, const ImportOptions& options, const MachineLookup& lookup);

}  // namespace meshwright
