// Tests a checkpoint's manifest: each field is read back as it was written, and each limit is the
// documented one.
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "exec/checkpoint/manifest.h"
#include "exec/core/crc32c.h"
#include "exec/optimizer/loss_scale.h"
#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Returns a manifest with all fields, in which no two numbers are equal.
Manifest whole() {
  Manifest manifest;
  manifest.run = "r";
  manifest.step = 40;
  manifest.position = 320;
  manifest.updates = 38;
  manifest.seed = 7;
  manifest.loss = 2.5;
  manifest.optimizer = "adamw";
  manifest.model = "m";
  manifest.degrees = "d";
  manifest.made_with = {{"training.global_batch", "8"}};
  manifest.numbers = {{"loss_scale", 1024}};
  manifest.histories = {{"x", {1, 2}}};
  manifest.states = {"weights", "first"};
  manifest.best_step = 20;
  manifest.best_loss = 1.5;
  manifest.base = "step-00000000";
  manifest.shards = {{"rank-00000.shard", 12, 34}, {"rank-00001.shard", 56, 78}};
  return manifest;
}

// Returns a manifest as it is written, after a change that its checksum includes.
std::string changed(const std::function<void(json&)>& change) {
  const std::string text = encode(whole());
  const std::size_t line = text.rfind('\n', text.size() - 2) + 1;
  json value = json::parse(text.substr(0, line));
  change(value);
  const std::string body = value.dump() + "\n";
  return body + text.substr(line, text.size() - line - 9) + hex8(crc32c(body)) + "\n";
}

std::string refusal(const std::function<void(json&)>& change) {
  try {
    parse_manifest(changed(change), "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every field of a manifest comes back as itself", "[exec][checkpoint]") {
  const Manifest wrote = whole(), read = parse_manifest(changed([](json&) {}), "f");
  CHECK(read.run == wrote.run);
  CHECK(read.step == wrote.step);
  CHECK(read.position == wrote.position);
  CHECK(read.updates == wrote.updates);
  CHECK(read.seed == wrote.seed);
  CHECK(read.loss == wrote.loss);
  CHECK(read.optimizer == wrote.optimizer);
  CHECK(read.model == wrote.model);
  CHECK(read.degrees == wrote.degrees);
  CHECK(read.made_with == wrote.made_with);
  CHECK(read.numbers == wrote.numbers);
  CHECK(read.histories == wrote.histories);
  CHECK(read.states == wrote.states);
  CHECK(read.best_step == wrote.best_step);
  CHECK(read.best_loss == wrote.best_loss);
  CHECK(read.base == wrote.base);
  REQUIRE(read.shards.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(read.shards[i].name == wrote.shards[i].name);
    CHECK(read.shards[i].bytes == wrote.shards[i].bytes);
    CHECK(read.shards[i].header_checksum == wrote.shards[i].header_checksum);
  }
}

TEST_CASE("optional keys of a manifest may be left out", "[exec][checkpoint]") {
  const Manifest read =
      parse_manifest(changed([](json& value) {
                       for (const char* key : {"made_with", "histories", "base", "best"})
                         value.erase(key);
                     }),
                     "f");
  CHECK(read.made_with.empty());
  CHECK(read.histories.empty());
  CHECK(read.base.empty());
  CHECK(read.best_step == -1);
}

TEST_CASE("numbers of a manifest are accepted up to their limits", "[exec][checkpoint]") {
  const auto with = [](const char* key, const json& to) {
    return [=](json& value) { value[key] = to; };
  };
  for (const int format : {0, 2, 10})
    CHECK(refusal(with("format", format)) ==
          "f: /format: " + std::to_string(format) + " is not known here; known: 1");
  CHECK(refusal(with("updates", 40)).empty());
  CHECK(refusal(with("updates", 41)) == "f: /updates: 41 are more than the 40 steps");
  const auto best = [](int step) { return [=](json& value) { value["best"]["step"] = step; }; };
  CHECK(refusal(best(40)).empty());
  CHECK(refusal(best(41)) == "f: /best/step: comes after this checkpoint's");
  for (const std::string key : {"step", "position", "updates"}) {
    CAPTURE(key);
    CHECK(refusal(with(key.c_str(), -1)) == "f: /" + key + ": -1 is not a count from 0 to 2^53");
  }
  CHECK(refusal(with("position", std::int64_t{1} << 53)).empty());
  CHECK(refusal(with("position", (std::int64_t{1} << 53) + 1)) ==
        "f: /position: 9007199254740993 is not a count from 0 to 2^53");
  CHECK(refusal(with("seed", 0)).empty());
  CHECK(refusal(with("seed", -1)) == "f: /seed: -1 is negative");
  for (const char* run : {"az09", ""}) CHECK(refusal(with("run", run)).empty());
  for (const char* run : {"A", "a-b", "a.", "../r"})
    CHECK(refusal(with("run", run)) == "f: /run: expected lower-case letters and digits");
  for (const std::string& name :
       {std::string("a/b"), std::string(".a"), std::string(), std::string(256, 'a')}) {
    CAPTURE(name);
    CHECK(refusal(with("base", name)) == "f: /base: is not the name of a file beside this folder");
    CHECK(refusal([&](json& value) { value["shards"][1]["name"] = name; }) ==
          "f: /shards/1/name: is not the name of a file in this folder");
  }
  CHECK(refusal(with("base", std::string(255, 'a'))).empty());
  CHECK(refusal([](json& value) { value["shards"][1]["name"] = "rank-00000.shard"; }) ==
        "f: /shards/1/name: rank-00000.shard is given twice");
}

TEST_CASE("the numbers of a loss scale come back each as itself, up to their limits",
          "[exec][checkpoint]") {
  const LossScaleState state{4096, 17, 3, 5};
  const LossScaleState begin{1, 0, 2, 5};  // skipped steps follow from the updates
  CHECK(from_numbers(to_numbers(state), begin) == state);
  CHECK(from_numbers({}, begin) == begin);
  struct Limit {
    const char* key;
    double least, most, below, above;
  };
  const Limit limits[] = {
      {"loss_scale", 0x1p-126, 0x1p126, 0x1p-127, 0x1p127},
      {"loss_scale_good_steps", 0, 0x1p53, -1, 0x1p54},
      {"loss_scale_hysteresis_left", 1, 0x1p53, 0, 0x1p54},
  };
  for (const auto& [key, least, most, below, above] : limits) {
    CAPTURE(key);
    for (const double good : {least, most})
      CHECK(to_numbers(from_numbers({{key, good}}, begin)).at(key) == good);
    for (const double bad : {below, above, std::numeric_limits<double>::quiet_NaN()})
      CHECK_THROWS_WITH(from_numbers({{key, bad}}, begin),
                        Catch::StartsWith(std::string(key) + ": "));
  }
}
