// Holds the job file that an import makes, key by key, and the setting that each key comes from.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/core/json.h"

namespace meshwright::interop {

class JobDraft {
 public:
  // Sets a key: "parallelism.tensor", "model". A key that is set twice keeps its last value. A key
  // that --set gives keeps the value of --set. Nothing is set below a value that is not an object.
  void set(std::string_view key, json value);
  bool has(std::string_view key) const;
  json value(std::string_view key) const;  // null: not set
  // Return a key's value for rules that depend on it. They return `fallback` if the key is not set
  // or, because of --set, has a value of another type. The reader of jobs rejects such a job in the
  // end.
  double number(std::string_view key, double fallback) const;
  std::string word(std::string_view key, std::string fallback) const;
  // Returns the value of a key that counts things, rounded down. Returns `fallback` if the key has
  // no number, and 1 if its number is not between 1 and 2^31 - 1.
  std::int64_t count(std::string_view key, std::int64_t fallback = 1) const;
  // Returns the number of layers if the key `model` names a model of the zoo or is an object that
  // gives it, otherwise 0.
  std::int64_t model_layers() const;
  const json& job() const { return job_; }
  // Applies arguments KEY=VALUE of --set. From then on, set() does not change these keys. Each KEY
  // loses its origin. If it is an object, the keys inside it keep theirs.
  void override_with(const std::vector<std::string>& overrides);
  // Returns whether --set gives a key.
  bool is_given(std::string_view key) const { return given_.contains(key); }

  // Returns the number of ranks of the whole job if its cluster is known by now, otherwise nothing.
  // Rules that call it come after the rules for launch settings.
  std::optional<int> ranks() const { return ranks_ ? ranks_(job_) : std::nullopt; }
  void count_ranks_by(std::function<std::optional<int>(const json& job)> ranks) {
    ranks_ = std::move(ranks);
  }
  // Adds a line for the user about what the job does not take over as it is: a setting that a job
  // file cannot express, or that is ignored, or a value that had to be assumed.
  void remark(std::string text) { remarks_.push_back(std::move(text)); }
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Asks for a key that only the user can give, with the reason. In the end, import puts the
  // questions whose keys are still unset into one message.
  void ask(std::string key, std::string reason) {
    questions_.emplace_back(std::move(key), std::move(reason));
  }
  const std::vector<std::pair<std::string, std::string>>& questions() const { return questions_; }

  // Says that a key will follow from the number of ranks. As long as the ranks and the machine are
  // unknown, the user is asked for the machine only, and not for this key.
  void follows_from_ranks(std::string key) { following_.insert(std::move(key)); }
  bool will_follow(std::string_view key) const {
    return following_.contains(key) && !ranks() && !has("cluster.machine");
  }

  // Returns the keys that set() was called with since the last call, in the order of their first
  // call, each once. Keys below a value that is not an object are left out.
  std::vector<std::string> take_news();

  // Sets the origin of the keys that are set from now on: "run.sh:12: --micro-batch-size". If it is
  // empty, their origins stay as they are.
  void comes_from(std::string origin) { origin_ = std::move(origin); }
  // Returns the origin of a key, which the reader of jobs names by its pointer
  // ("/parallelism/tensor"), or of the nearest key above it that has an origin. Returns an empty
  // string if none has.
  std::string origin_of_pointer(std::string pointer) const;

 private:
  const json* find(std::string_view key) const;  // null: not set
  json job_ = json::object();
  std::function<std::optional<int>(const json&)> ranks_;
  std::vector<std::string> remarks_;
  std::vector<std::pair<std::string, std::string>> questions_;
  std::vector<std::string> news_;
  std::set<std::string, std::less<>> given_, following_;
  std::string origin_;
  std::map<std::string, std::string, std::less<>> origins_;  // by key
};

}  // namespace meshwright::interop
