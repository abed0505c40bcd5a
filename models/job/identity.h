// Computes a run's identity: the values in its job that change what is computed. A checkpoint
// stores the identity, key by key. Readers of a checkpoint, such as `train --resume` and
// `export-weights`, compare it with the identity of their own job. Keys are those of the job file
// ("training.learning_rate"), and "model.heads" and the like for the model (model_description.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/job/job.h"

namespace meshwright::job {

// Says whether a run may go on from a checkpoint that has another value of a key.
enum class ChangeRule : std::uint8_t {
  never,    // because the trained weights would mean something else
  by_word,  // only if --allow-changed names the key, because the training differs
  freely    // because the training is the same, except for rounding
};
struct KeyChange {
  std::string_view key;  // "log.*" is all keys of a section
  ChangeRule change = ChangeRule::freely;
};
// Returns a row for every key of the job file and every value that describes a model.
std::span<const KeyChange> key_changes();

// Values as JSON, by key. The value is the text `not given` if the job has no value for the key, or
// if the key has no effect.
using Identity = std::map<std::string, std::string>;

// Returns the values of all keys of `job` whose rule is not ChangeRule::freely. `plan` is the job's
// plan with every "auto" decided.
Identity identity_of(const Job& job, const Plan& plan);
// Returns the part of the identity that gives weights their meaning: the model, and how adapters
// are added to it. Readers that use only a checkpoint's weights compare this part.
Identity identity_of_weights(const Job& job);

struct IdentityChanges {
  std::string refused;  // a message without the file's name; empty: nothing is refused
  std::string allowed;  // "training.beta1 0.9 to 0.8, ..."; empty: nothing has changed
  std::vector<std::string>
      unknown;  // keys that `saved` does not have, because an older version wrote it
};
// Compares the identity of a checkpoint (`saved`) with that of its reader (`now`), by the keys of
// `now`. `allowed` holds the words of --allow-changed: keys, or sections of keys.
IdentityChanges changes_between(const Identity& saved, const Identity& now,
                                const std::vector<std::string>& allowed);

// Throws InputError if a word of --allow-changed is neither a key that may change by word nor a
// section with such keys.
void check_allowed_changes(const std::vector<std::string>& allowed);

// Returns the rows of key_changes() as a list in Markdown, for docs/job-file.md.
std::string change_list();

}  // namespace meshwright::job
