// Translates between the settings of a framework and the keys of the job file. A list of rules
// describes a framework. Its import, its export and its table in docs/interop.md all use this list.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/core/json.h"
#include "tools/interop/job_draft.h"
#include "tools/interop/job_values.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

struct Rule {
  std::vector<std::string> keys;      // keys of the job file that the rule may set
  std::vector<std::string> settings;  // names in the framework, for the documentation and for hints
  // Reads the rule's settings, as far as they are present, and sets the rule's keys in the job.
  std::function<void(Settings&, JobDraft&)> read;
  // Adds the rule's settings to the framework's, from the job's values. Null if there is nothing to
  // add here: a launcher or another rule writes them, or the framework has no such setting.
  std::function<void(const JobValues&, Settings&)> write;
  std::string note = {};  // for the documentation
};
using Rules = std::vector<Rule>;

// Return the rule for one key that is one setting: a whole number, or any number. If the setting is
// absent, imports set the key to `missing`, the framework's default. Null leaves the key unset
// then. Exports write the setting unless the key is null, so that no default matters.
Rule whole_rule(std::string key, std::string setting, json missing = nullptr);
Rule number_rule(std::string key, std::string setting, json missing = nullptr);
// Returns the rule for a truth value. An export writes only true, as a flag of a command line,
// unless `write_false` is set. Then it writes either value.
Rule flag_rule(std::string key, std::string setting, bool write_false = false);
// Returns the rule for a setting that turns off what is on by default, such as
// --no-gradient-accumulation-fusion. The key has the opposite value of the setting. An export
// writes the setting only if the key is false.
Rule off_rule(std::string key, std::string setting);
// Returns the rule for a key whose words (first of each pair) have other spellings in the framework
// (second). `missing` is as in whole_rule(), a word of the job file.
Rule words_rule(std::string key, std::string setting,
                std::vector<std::pair<std::string, std::string>> words, json missing = nullptr);

// Settings that change nothing that meshwright plans or predicts. `pattern` is a name, or ends with
// `*` and stands for all names that begin with it.
struct WithoutMeaning {
  std::string_view pattern;
  std::string_view reason;  // "logging; `log` says what train writes"
};

}  // namespace meshwright::interop
