// The job file that an import makes, key by key, and where each key comes from.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

class JobDraft {
 public:
  // "parallelism.tensor", "model". A key that is set twice keeps its last value.
  void set(std::string_view key, nlohmann::json value);
  bool has(std::string_view key) const;
  nlohmann::json value(std::string_view key) const;  // null: not set
  // For what follows from a key. Where --set says a value of another kind, the reader of jobs
  // refuses it in the end, and until then it says nothing.
  double number(std::string_view key, double fallback) const;
  std::string word(std::string_view key, std::string fallback) const;
  // The same of a number of things: at least 1 where the key is set.
  std::int64_t count(std::string_view key, std::int64_t fallback = 1) const;
  // Layers of the model's config.json; 0: unknown.
  std::int64_t model_layers() const;
  const nlohmann::json& job() const { return job_; }
  // `--set` texts KEY=VALUE; what they set keeps no origin.
  void override_with(const std::vector<std::string>& overrides);

  // The ranks of the whole job, where its cluster is known by now: rules of launch settings stand
  // first in a framework's list.
  std::optional<int> ranks() const { return ranks_ ? ranks_(job_) : std::nullopt; }
  void count_ranks_by(std::function<std::optional<int>(const nlohmann::json& job)> ranks) {
    ranks_ = std::move(ranks);
  }
  // What a setting says and a job file cannot: one line for the user.
  void remark(std::string text) { remarks_.push_back(std::move(text)); }
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Keys that were set since the last call, in order, each once.
  std::vector<std::string> take_news();

  // Keys that are set from now on come from there: "run.sh:12: --micro-batch-size".
  void comes_from(std::string origin) { origin_ = std::move(origin); }
  // Of the key that a message of the job's reader names by its pointer ("/parallelism/tensor"), or
  // of one above it; empty: nobody's.
  std::string origin_of_pointer(std::string pointer) const;

 private:
  const nlohmann::json* find(std::string_view key) const;  // null: not set
  nlohmann::json job_ = nlohmann::json::object();
  std::function<std::optional<int>(const nlohmann::json&)> ranks_;
  std::vector<std::string> remarks_;
  std::vector<std::string> news_;
  std::string origin_;
  std::map<std::string, std::string, std::less<>> origins_;  // by key
};

}  // namespace meshwright
