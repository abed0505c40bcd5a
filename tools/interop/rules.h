// How settings of a framework and keys of the job file become each other. A framework is a list of
// rules; from the same rows come its import, its export and its table in docs/interop.md.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/interop/job_draft.h"
#include "tools/interop/job_values.h"
#include "tools/interop/settings.h"

namespace meshwright {

struct Rule {
  std::vector<std::string> keys;      // of the job file; for the documentation
  std::vector<std::string> settings;  // of the framework; the same
  // Reads its settings, if they are there, and sets its keys.
  std::function<void(Settings&, JobDraft&)> read;
  // Adds the rule's settings to the framework's, from the job's values. Null if there is nothing to
  // add here: a launcher or another rule writes them, or the framework has no such setting.
  std::function<void(const JobValues&, Settings&)> write;
  std::string note = {};  // for the documentation
};
using Rules = std::vector<Rule>;

// One setting that is one key. `missing`: what the framework takes where the setting is not given,
// if that is not what the job file takes (null); it is then written into the job. Exports always
// write the setting, so that no default matters.
Rule whole_rule(std::string key, std::string setting, nlohmann::json missing = nullptr);
Rule number_rule(std::string key, std::string setting, nlohmann::json missing = nullptr);
// A truth value. As a command line has them: given or not (`write_false` false), or a value.
Rule flag_rule(std::string key, std::string setting, bool write_false = false);
// The setting turns off what is on without it: --no-gradient-accumulation-fusion.
Rule off_rule(std::string key, std::string setting);
// Words of the job file (first) as words of the framework (second). `missing` as above, in the job
// file's words.
Rule words_rule(std::string key, std::string setting,
                std::vector<std::pair<std::string, std::string>> words,
                nlohmann::json missing = nullptr);
// A number of the framework that is `factor` times the key's: buckets in elements of 4 bytes.
Rule scaled_rule(std::string key, std::string setting, double factor);

// A setting that changes nothing that meshwright plans or predicts. `pattern` is a name, or ends
// with `*` and stands for all that begin so.
struct WithoutMeaning {
  std::string_view pattern;
  std::string_view reason;  // "logging; `log` says what train writes"
};

}  // namespace meshwright
