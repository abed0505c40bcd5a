// Tests the identity of a run: every key of the job and every value of the model has a rule.
#include "models/job/identity.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/architectures/model_description.h"
#include "models/job/keys.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Returns all keys of the sections that have rows, and all values of a model, as dotted names.
std::set<std::string> all_keys() {
  std::set<std::string> keys;
  for (const Section& section : sections_of_keys())
    for (const Key& key : section.keys)
      keys.insert(std::string(section.name) + "." + std::string(key.name));
  DataFiles::Evaluation evaluation;
  keys.erase("data.evaluation");
  for (const Key& key : evaluation_keys(evaluation))
    keys.insert("data.evaluation." + std::string(key.name));
  for (const auto& [name, value] : description_of(Model{})) keys.insert("model." + name);
  return keys;
}

json base_job() {
  return json::parse(R"({
    "model": {"family": "gpt", "hidden": 64, "layers": 2, "heads": 4, "vocab": 256, "positions": 32},
    "training": {"global_batch": 8, "micro_batch": 2, "sequence_length": 16, "steps": 3},
    "cluster": {"machine": "local"}
  })");
}

Identity identity(const json& value) {
  const Job job = read_job(value, "job.json", ".", lookup_for_tests);
  return identity_of(job, settle(job, 1, lookup_for_tests("local")));
}

}  // namespace

TEST_CASE("each key of the job and each value of the model says whether it may change",
          "[models][job]") {
  std::map<std::string, int> rows;
  for (const KeyChange& row : key_changes()) ++rows[std::string(row.key)];
  std::set<std::string> unused;
  for (const auto& [key, count] : rows) {
    INFO(key);
    CHECK(count == 1);
    unused.insert(key);
  }
  for (const std::string& key : all_keys()) {
    const std::string section = key.substr(0, key.find('.')) + ".*";
    INFO(key);
    CHECK((rows.contains(key) || rows.contains(section)));
    unused.erase(key);
    unused.erase(section);
  }
  CHECK(unused == std::set<std::string>{});
}

TEST_CASE("a checkpoint is compared by every key that does not change freely", "[models][job]") {
  const Identity now = identity(base_job());
  for (const KeyChange& row : key_changes()) {
    INFO(row.key);
    CHECK(now.contains(std::string(row.key)) == (row.change != ChangeRule::freely));
  }
  CHECK(now.at("model.heads") == "4");
  CHECK(now.at("training.global_batch") == "8");
  CHECK(now.at("data.evaluation.files") == "not given");
}

TEST_CASE("the identity of a job has the values that its keys have", "[models][job]") {
  json job = base_job();
  const Identity before = identity(job);
  const std::map<std::string, json> given = {
      {"training.ema_decay", 0.9},
      {"training.moments_precision", "bf16"},
      {"training.gradient_reduce_precision", "bf16"},
      {"training.learning_rate", 0.5},
      {"training.lora", {{"rank", 2}, {"target_modules", {"c_attn"}}}},
      {"data",
       {{"files", {"a.bin"}},
        {"evaluation", {{"files", {"held.bin"}}, {"every_steps", 2}, {"batches", 3}}}}}};
  for (const auto& [key, value] : given)
    job[json::json_pointer(
        "/" + key.substr(0, key.find('.')) +
        (key.find('.') < key.size() ? "/" + key.substr(key.find('.') + 1) : ""))] = value;
  const Identity after = identity(job);
  std::set<std::string> changed;
  for (const auto& [key, value] : after)
    if (before.at(key) != value) changed.insert(key);
  CHECK(changed == std::set<std::string>{"training.ema_decay", "training.moments_precision",
                                         "training.gradient_reduce_precision",
                                         "training.learning_rate", "training.lora", "data.files",
                                         "data.format", "data.seed", "data.shuffle",
                                         "data.evaluation.files", "data.evaluation.batches"});
  CHECK(after.at("data.evaluation.files") == R"(["held.bin"])");
}

TEST_CASE("steps belong to the identity where the learning rate falls towards their end",
          "[models][job]") {
  const std::map<std::string, std::string> expected = {{"constant", "not given"},
                                                       {"inverse_sqrt", "not given"},
                                                       {"linear", "3"},
                                                       {"cosine", "3"},
                                                       {"warmup_stable_decay", "3"}};
  for (const auto& [schedule, steps] : expected) {
    json job = base_job();
    job["training"]["learning_rate_schedule"] = schedule;
    INFO(schedule);
    CHECK(identity(job).at("training.steps") == steps);
  }
}

TEST_CASE("documents belong to the identity where rows are made up", "[models][job]") {
  json job = base_job();
  job["training"].merge_patch({{"packing", true}, {"documents_per_row", 4}});
  CHECK(identity(job).at("training.documents_per_row") == "4.0");
  job["data"] = {{"files", {"a.bin"}}, {"document_end", 1}};
  CHECK(identity(job).at("training.documents_per_row") == "not given");
}

TEST_CASE("the identity of a checkpoint is compared with the reader's key by key",
          "[models][job]") {
  const Identity now = {
      {"model.heads", "8"}, {"training.beta1", "0.9"}, {"training.seed", "1"}, {"data.seed", "2"}};
  Identity saved = now;
  const auto refused = [&](const std::vector<std::string>& allowed) {
    return changes_between(saved, now, allowed).refused;
  };
  CHECK(refused({}).empty());
  saved["training.beta1"] = "0.8";
  saved["data.seed"] = "0";
  CHECK(refused({}) ==
        "data.seed was 0, the job's is 2; training.beta1 was 0.8, the job's is 0.9; use what it "
        "was, or go on with the job's: --allow-changed data.seed --allow-changed training.beta1");
  CHECK(refused({"training", "data.se"}) ==
        "data.seed was 0, the job's is 2; use what it was, or go on with the job's: "
        "--allow-changed data.seed");
  const IdentityChanges both = changes_between(saved, now, {"training", "data.seed"});
  CHECK(both.refused.empty());
  CHECK(both.allowed == "data.seed 0 to 2, training.beta1 0.8 to 0.9");
  saved["model.heads"] = "4";
  CHECK(refused({"training", "data", "model", "model.heads"}) ==
        "model.heads was 4, the job's is 8; use the job that it was saved with, or another "
        "checkpoint folder");
  saved.erase("model.heads");
  saved.erase("training.beta1");
  const IdentityChanges older = changes_between(saved, now, {"data"});
  CHECK(older.refused.empty());
  CHECK(older.unknown == std::vector<std::string>{"model.heads", "training.beta1"});
}

TEST_CASE("only what may change by word is allowed to", "[models][job]") {
  const auto message = [](const std::string& word) {
    return message_of([&] { check_allowed_changes({word}); });
  };
  check_allowed_changes({"training", "data", "data.evaluation", "model", "training.seed"});
  CHECK(message("training.sed")
            .ends_with(": is no key of a job or a model; use one that a refusal "
                       "names"));
  CHECK(message("parallelism") ==
        "--allow-changed parallelism: may change without a word; leave it "
        "out");
  CHECK(message("model.heads").find("may not change") != std::string::npos);
}

TEST_CASE("models that compute something else have other descriptions", "[models][job]") {
  const Model usual;
  const auto differs = [&](const auto& change) {
    Model model = usual;
    change(model);
    std::set<std::string> keys;
    const auto before = description_of(usual);
    for (const auto& [key, value] : description_of(model))
      if (before.at(key) != value) keys.insert(key);
    return keys;
  };
  using Names = std::set<std::string>;
  CHECK(differs([](Model& m) { m.name = "other"; }) == Names{});
  CHECK(differs([](Model& m) { m.heads = 3; }) == Names{"heads"});
  CHECK(differs([](Model& m) { m.head = Head::qa; }) == Names{"head"});
  CHECK(differs([](Model& m) { m.norm_epsilon = 1e-6; }) == Names{"norm_epsilon"});
  CHECK(differs([](Model& m) { m.dense_blocks = {1}; }) == Names{"dense_blocks"});
  CHECK(differs([](Model& m) { m.query_key_norm = QueryKeyNorm::rows; }) ==
        Names{"query_key_norm"});
  CHECK(differs([](Model& m) { m.architecture = Architecture::llama; }) == Names{"architecture"});
}
