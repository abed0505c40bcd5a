// Compares the schema of the job file with the reader: every job that the reader accepts is valid.
// Tries all jobs of the source tree, and thousands with random changes.
#include "models/job/schema.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "models/core/error.h"
#include "models/job/keys.h"
#include "tests/catch.h"
#include "tests/models/job_lookup.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"
#include "tests/schema_check.h"

using namespace meshwright::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

json good_job() {
  return {{"model", "gpt2"},
          {"training", {{"global_batch", 16}, {"micro_batch", 2}, {"sequence_length", 128}}},
          {"cluster", {{"machine", "p4d.24xlarge"}}},
          {"parallelism", {{"data", 8}}}};
}

bool is_taken(const json& job) {
  try {
    read_job(job, "job.json", ".", lookup_for_tests);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

class Mutator {
 public:
  // Changes one key of a section: gives it another value, or adds a key that does not exist.
  void change(json& job) {
    const std::vector<Section>& sections = sections_of_keys();
    const Section& section = sections[below(sections.size())];
    const Key& key = section.keys[below(section.keys.size())];
    json& of = job[std::string(section.name)];
    if (!of.is_object()) of = json::object();
    if (below(20) == 0) {
      of[std::string(key.name) + "x"] = 1;
    } else if (below(20) == 0) {
      of.erase(std::string(key.name));
    } else {
      of[std::string(key.name)] = value_for(key);
    }
  }
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  json value_for(const Key& key) {
    const std::vector<std::string> words = words_of(key);
    if (!words.empty() && below(2) == 0) return words[below(words.size())];
    static const json values = json::parse(
        R"([-1, 0, 1, 2, 3, 4, 8, 0.5, 1.0, 2.5, 1e-3, 1e12, true, false, "auto", "x", "", null,
            [], {}, ["a"], ["a", 1], [1, 2], "1", "last", "each"])");
    return values[below(values.size())];
  }
  std::mt19937_64 random_{7};
};

}  // namespace

TEST_CASE("every job of the tree is valid", "[models][job]") {
  const json schema = job_schema();
  int jobs = 0;
  for (const char* folder : {"scenarios", "scenarios/capacity"})
    for (const auto& entry : fs::directory_iterator(fs::path(MESHWRIGHT_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".json") continue;
      INFO(entry.path());
      std::ifstream file(entry.path());
      CHECK(is_valid(json::parse(file), schema));
      ++jobs;
    }
  CHECK(jobs > 15);
}

TEST_CASE("what the reader takes is valid", "[models][job]") {
  const json schema = job_schema();
  REQUIRE(is_valid(good_job(), schema));
  REQUIRE(is_taken(good_job()));
  Mutator mutate;
  int taken = 0, refused_by_both = 0, refused_by_reader = 0;
  const int mutants = sanitized ? 2'000 : 100'000 / one_in(10);
  for (int i = 0; i < mutants; ++i) {
    json job = good_job();
    for (std::size_t changes = 1 + mutate.below(2); changes > 0; --changes) mutate.change(job);
    const bool valid = is_valid(job, schema);
    if (is_taken(job)) {
      ++taken;
      if (!valid) FAIL("not valid, and yet it is read: " << job.dump());
    } else {
      ++(valid ? refused_by_reader : refused_by_both);
    }
  }
  CHECK(taken > mutants / 10);
  CHECK(refused_by_both > 2 * refused_by_reader);  // the schema finds most mistakes by itself
}

TEST_CASE("a job may name its schema", "[models][job]") {
  json job = good_job();
  job["$schema"] = "job.schema.json";
  CHECK(is_taken(job));
  CHECK(is_valid(job, job_schema()));
  job["$schemas"] = 1;
  CHECK_FALSE(is_taken(job));
  CHECK_FALSE(is_valid(job, job_schema()));
}
