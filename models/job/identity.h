// A run's identity is everything in its job that changes what is computed. A checkpoint holds it,
// key by key, and whoever reads the checkpoint compares: `train --resume`, each restart,
// `export-weights`. Keys are those of the job file ("training.learning_rate"), and "model.heads"
// and the like for the model (model_description.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/job/job.h"

namespace meshwright {

// Decides whether a run may go on from a checkpoint that has another value of a key.
enum class ChangeRule : std::uint8_t {
  never,    // what was trained would mean something else
  by_word,  // it is another training, which whoever starts it has to ask for (--allow-changed)
  freely    // the training is the same, or the same up to the order of sums
};
struct KeyChange {
  std::string_view key;  // "log.*": all keys of a section
  ChangeRule change = ChangeRule::freely;
};
// Returns a row for every key of the job file and every value that describes a model.
std::span<const KeyChange> key_changes();

// Values as JSON, by key. A key that the job does not give has the value "not given".
using Identity = std::map<std::string, std::string>;

// Returns all of `job` that does not change freely. `plan` is the settled one.
Identity identity_of(const Job& job, const Plan& plan);
// Returns the part of it that says what weights mean, whatever they were trained with: the model,
// and how adapters are added to it.
Identity identity_of_weights(const Job& job);

struct IdentityChanges {
  std::string refused;  // a message, without its place; empty: nothing is refused
  std::string allowed;  // "training.beta1 0.9 to 0.8, ..."; empty: nothing has changed
  std::vector<std::string>
      unknown;  // keys of which `saved` says nothing: it is of an older version
};
// Compares what a checkpoint says with what its reader computes, by the keys of `now`. `allowed`
// holds keys, or sections of keys.
IdentityChanges changes_between(const Identity& saved, const Identity& now,
                                const std::vector<std::string>& allowed);

// Throws InputError unless each of the words of --allow-changed is a key that may change by word,
// or a section with such keys.
void check_allowed_changes(const std::vector<std::string>& allowed);

// Returns the rows as a table in Markdown, for docs/job-file.md.
std::string change_table();

}  // namespace meshwright
