// Tests that keys which a job leaves out are searched by `plan`, and have their defaults in
// commands that predict one plan.
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

json small() {
  return {{"name", "small"},
          {"model", "gpt2"},
          {"training", {{"global_batch", 32}, {"sequence_length", 512}}},
          {"cluster", {{"machine", "p3.8xlarge"}, {"count", 2}}}};
}

// Returns what `command` answers about the job.
json answer_about(const std::string& command, const json& job) {
  const TestFolder folder;
  return answer_of(command + " " + folder.file("job.json", job.dump()));
}

std::set<int> values_of(const json& plans, const std::string& section, const std::string& key) {
  std::set<int> values;
  for (const json& plan : plans) values.insert(plan[section][key].get<int>());
  return values;
}

}  // namespace

TEST_CASE("plans of a job that names no degrees are those of auto", "[tools][left_out]") {
  json spelled = small();
  spelled["parallelism"] = "auto";
  spelled["training"]["recompute"] = "auto";
  // `auto` also searches offloading. A job that leaves it out has it only if nothing else fits.
  json without_offload = answer_about("plan --set parallelism.offload=none", spelled);
  json answer = answer_about("plan", small());
  CHECK(answer["candidates_enumerated"] == without_offload["candidates_enumerated"]);
  REQUIRE(answer["plans"].size() == without_offload["plans"].size());
  for (std::size_t i = 0; i < answer["plans"].size(); ++i)
    CHECK(answer["plans"][i] == without_offload["plans"][i]);
  CHECK(answer["opened"].empty());
}

TEST_CASE("degrees that a job names are kept, and others are searched", "[tools][left_out]") {
  json job = small();
  job["parallelism"] = {{"tensor", 2}};
  job["training"]["recompute"] = "full";
  const json plans = answer_about("plan --top 1000", job)["plans"];
  CHECK(values_of(plans, "parallelism", "tensor") == std::set<int>{2});
  CHECK(values_of(plans, "parallelism", "pipeline").size() > 1);
  for (const json& plan : plans) CHECK(plan["training"]["recompute"] == "full");
}

TEST_CASE("offloading that a job leaves out is for what fits in no other way",
          "[tools][left_out]") {
  json job = small();
  job["model"] = "gpt2-xl";  // 1.56 B parameters of 16 bytes are 23.2 GiB, an A10G has 22
  job["training"] = {{"global_batch", 8}, {"sequence_length", 512}};
  job["cluster"] = {{"machine", "g5.4xlarge"}};
  const json answer = answer_about("plan", job);
  CHECK(answer["opened"] == json({"parallelism.offload=optimizer"}));
  for (const json& plan : answer["plans"]) CHECK(plan["parallelism"]["offload"] == "optimizer");
  job["parallelism"] = {{"offload", "none"}};
  const TestFolder folder;
  CHECK(run("plan " + folder.file("job.json", job.dump())).code == 3);
}

TEST_CASE("a prediction of one plan says which defaults it has", "[tools][left_out]") {
  const TestFolder folder;
  json job = small();
  job["parallelism"] = json::object();
  const std::string said = folder.file("said");
  CHECK(run("simulate " + folder.file("job.json", job.dump()), said).code == 0);
  CHECK(content_of(said).find("job.json: left out, so by default: pipeline 1, tensor 1, data 8, "
                              "zero_stage 0, recompute none; `meshwright plan` looks for better "
                              "ones\n") != std::string::npos);
  job["parallelism"] = {{"pipeline", 1}, {"tensor", 1}, {"zero_stage", 1}};
  job["training"]["recompute"] = "none";
  CHECK(run("simulate " + folder.file("job.json", job.dump()), said).code == 0);
  CHECK(content_of(said).empty());
}

TEST_CASE("SageMaker's distribution leaves nothing out", "[tools][left_out]") {
  const std::string job = source + "/scenarios/gpt-j-6b-smp.json";
  CHECK(answer_of("plan " + job)["candidates_enumerated"] == 1);
}
