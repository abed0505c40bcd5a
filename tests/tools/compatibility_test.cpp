// Tests that files of earlier versions (tests/compatibility) can still be read.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string saved = source + "/tests/compatibility/0.1/";

json file_of(const std::string& name) { return json::parse(std::ifstream(saved + name)); }

// Checks that the keys of `said` whose values are not `auto` have the same values in `answer`.
// Returns their number.
int same_keys(const json& said, const json& answer) {
  int same = 0;
  if (!said.is_object()) return same;
  for (const auto& [key, value] : said.items()) {
    if (value == "auto" || !answer.contains(key)) continue;
    INFO(key);
    CHECK(answer[key] == value);
    ++same;
  }
  return same;
}

}  // namespace

TEST_CASE("job files of 0.1 are accepted, and their keys mean what they did", "[tools][json]") {
  const json distributed = file_of("answers.json")["gpt-j-6b-smp"];
  int files = 0, keys = 0;
  for (const auto& entry : fs::directory_iterator(saved + "jobs")) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    INFO(name);
    const json answer = answer_of("simulate " + entry.path().string() + " --profile " + saved +
                                  "profiles/local.json");
    const json job = file_of("jobs/" + name + ".json");
    const json& expected = name == "gpt-j-6b-smp" ? distributed : job;
    for (const char* section : {"parallelism", "training"})
      if (expected.contains(section)) keys += same_keys(expected[section], answer[section]);
    if (job.contains("cluster") && !job["cluster"]["machine"].is_array())
      keys += same_keys(job["cluster"], {{"machine", answer["machine"]}});
    ++files;
  }
  CHECK(files == 16);
  CHECK(keys > 100);
}

TEST_CASE("profiles of 0.1 are accepted, prices too", "[tools][json]") {
  for (const char* machine : {"p4d.24xlarge", "p5.48xlarge", "g5.48xlarge"}) {
    const json profile = file_of("profiles/" + std::string(machine) + ".json");
    const json answer = answer_of("simulate " + saved + "jobs/gpt2-local.json --set cluster={} " +
                                  "--set cluster.machine=" + machine + " --set cluster.count=1 " +
                                  "--set cluster.processes_per_host=1 --profile " + saved +
                                  "profiles/" + machine + ".json");
    CHECK(answer["usd_per_hour"] == profile["prices"]["on_demand_usd_per_hour"]);
    CHECK(answer["price"]["source"] == profile["prices"]["source"]);
    CHECK(answer["memory_limit_bytes"] <= profile["gpu"]["memory_bytes"]);
    CHECK(answer["memory_limit_bytes"].get<double>() >
          0.9 * profile["gpu"]["memory_bytes"].get<double>());
  }
}

// A checkpoint of 0.1 says neither its model nor all settings of its training. One warning says
// what is missing.
TEST_CASE("a checkpoint that says less than today's is accepted with a warning", "[tools]") {
  const TestFolder folder;
  fs::copy(saved + "checkpoint", folder.file("checkpoint"), fs::copy_options::recursive);
  fs::copy(saved + "train.json", folder.file("train.json"));
  const std::string job = folder.file("train.json") + " --profile " + saved +
                          "profiles/local.json --set parallelism={} --set "
                          "cluster.processes_per_host=1";
  const std::string begin = "warning: " + folder.file("train.json") +
                            ": the checkpoint is of an older version, which did not save ";
  const Answer exported = run("export-weights " + job + " --to " + folder.file("exported"), "&1");
  CHECK(exported.code == 0);
  CHECK(
      exported.out.starts_with(begin + "its model and training.lora; the job's values are used\n"));
  const Answer changed = run("train " + job + " --resume --set training.beta1=0.8", "&1");
  CHECK(changed.code == 2);
  CHECK(changed.out.find("/made_with: training.beta1 was 0.9, the job's is 0.8; use what it was") !=
        std::string::npos);
  const Answer resumed = run("train " + job + " --resume", "&1");
  CHECK(resumed.code == 0);
  const std::size_t line = resumed.out.find(begin + "data.document_end, data.end_token, ");
  REQUIRE(line != std::string::npos);
  CHECK(resumed.out.find("its model, ", line) < resumed.out.find("training.ema_decay, ", line));
  CHECK(resumed.out.find("warning: ", line + 1) == std::string::npos);
}

// Two ranks saved the checkpoint and one resumes, so the loss differs from that of 0.1 only by the
// order of sums.
TEST_CASE("a run that 0.1 saved goes on, under other degrees too", "[tools][json]") {
  const TestFolder folder;
  fs::copy(saved + "checkpoint", folder.file("checkpoint"), fs::copy_options::recursive);
  fs::copy(saved + "train.json", folder.file("train.json"));
  const json answer =
      answer_of("train " + folder.file("train.json") + " --resume --profile " + saved +
                "profiles/local.json --set parallelism={} " + "--set cluster.processes_per_host=1");
  CHECK(answer["steps"] == 4);
  const double loss = file_of("answers.json")["final_loss"];
  CHECK(answer["final_loss"].get<double>() == Approx(loss).epsilon(1e-6));
}
