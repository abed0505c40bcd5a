// Tests that each key of the program's output is described in its schema, and that each described
// key occurs in some output.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/schema_check.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

json schema_of(const std::string& what) { return json::parse(run("schema " + what).out); }

// Adds to `met` the paths that the schema describes and that `value` has.
void meet(const json& schema, const json& value, const std::string& path,
          std::set<std::string>& met) {
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& [key, each] : schema["properties"].items())
      if (value.contains(key)) {
        met.insert(path + "." + key);
        meet(each, value[key], path + "." + key, met);
      }
  } else if (value.is_array() && schema.contains("items")) {
    for (const json& each : value) meet(schema["items"], each, path + "[]", met);
  }
}

void describe(const json& schema, const std::string& path, std::set<std::string>& described) {
  if (schema.contains("properties"))
    for (const auto& [key, each] : schema["properties"].items()) {
      described.insert(path + "." + key);
      describe(each, path + "." + key, described);
    }
  if (schema.contains("items")) describe(schema["items"], path + "[]", described);
}

// Checks that the output of all calls is valid. Returns the described paths that no output has.
std::set<std::string> missing_in(const std::string& what, const std::vector<std::string>& calls) {
  const json schema = schema_of(what);
  std::set<std::string> described, met;
  describe(schema, "", described);
  for (const std::string& call : calls) {
    INFO(call);
    const Answer called = run(call + " --json");
    REQUIRE((called.code == 0 || called.code == 3));  // 3: no plan fits
    const json answer = json::parse(called.out);
    CHECK(is_valid(answer, schema));
    json changed = answer;
    changed["another_key"] = 1;
    CHECK_FALSE(is_valid(changed, schema));
    const json required = schema.value("required", json::array());
    for (const auto& [key, unused] : answer.items()) {
      changed = answer;
      changed.erase(key);
      const bool needed = std::find(required.begin(), required.end(), key) != required.end();
      CHECK(is_valid(changed, schema) == !needed);
    }
    meet(schema, answer, "", met);
  }
  std::set<std::string> missing;
  for (const std::string& path : described)
    if (!met.contains(path) && path.find("parallelism.") == path.npos &&
        path.find("training.") == path.npos)
      missing.insert(path);
  return missing;
}

}  // namespace

TEST_CASE("what simulate answers is what its schema describes", "[tools][json]") {
  std::vector<std::string> calls;
  for (const auto& entry : std::filesystem::directory_iterator(source + "/scenarios"))
    if (entry.path().extension() == ".json" && !entry.path().stem().string().starts_with("quick"))
      calls.push_back("simulate " + entry.path().string() + " --profile " + jobs + "local.json");
  std::erase_if(calls, [](const std::string& call) { return call.find("/gpu-") != call.npos; });
  const std::string two = "simulate " + source + "/scenarios/bert-large-4-p3dn.json";
  calls.push_back(two + " --set training.steps=100000 --set failures={} --set data.decode_s=0.01");
  calls.push_back("simulate " + jobs + "searched.json --set training.memory_of=pytorch");
  calls.push_back(two +
                  " --set training.steps=100000 --set 'failures={\"recovery\":\"hot_spare\"}'");
  const std::set<std::string> missing = missing_in("simulate", calls);
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what plan answers is what its schema describes", "[tools][json]") {
  const std::string job = "plan " + jobs + "searched.json --top 3";
  const std::set<std::string> missing = missing_in(
      "plan", {job + " --set model=gpt3-175b", job + " --set training.memory_of=pytorch",
               job + " --set objective.tokens=1e9 --set failures={} --set data.decode_s=0.01",
               "plan --model gpt2 --on 8xA100-40GB --length 1024 --batch 60",
               job + " --set model=gpt2-xl --set training.global_batch=8 --set "
                     "cluster.count=1 --set cluster.machine=g5.4xlarge"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what validate answers is what its schema describes", "[tools][json]") {
  const std::string files = source + "/scenarios/evidence/";
  std::set<std::string> missing = missing_in(
      "validate",
      {"validate " + files + "training_compiler_hf_4_11_pytorch_1_9.json " + files +
       "nccl_allreduce_p4de_p5.json " + files + "torchtitan_h100_fp8_cp_pp.json " + files +
       "bigscience_head_dimension_a100.json " + files + "nvidia_bert_large_v100_a100.json"});
  // The validated file has errors of steps, which alone have intervals and orders, and no row of it
  // is skipped. So these keys do not occur.
  std::erase_if(missing, [](const std::string& path) {
    return path.starts_with(".collectives_") || path.starts_with(".peak_memory[]") ||
           path.starts_with(".skipped[]");
  });
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what advise and scale answer is what their schemas describe", "[tools][json]") {
  const std::string job = jobs + "searched.json", scenarios = source + "/scenarios/";
  std::set<std::string> missing =
      missing_in("advise", {"advise " + scenarios + "capacity/gpt2-xl.json",
                            "advise " + job + " --set model=gpt-neox-20b",
                            "advise " + job + " --set data.decode_s=0.01",
                            "advise --model gpt2 --on 8xA100-40GB --length 1024 --batch 124"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
  missing = missing_in("scale", {"scale " + job, "scale " + job + " --set model=gpt-neox-20b"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what compile and sensitivity answer is what their schemas describe", "[tools][json]") {
  const std::set<std::string> of_compile = missing_in(
      "compile",
      {"compile " + jobs + "tiny.json" + one_rank,
       "compile " + source +
           "/scenarios/bert-large-4-p3dn.json --set cluster.count=1 --set "
           "cluster.machine=p3.2xlarge --set parallelism.data=1 --set model=bert-base-uncased"});
  INFO(json(of_compile).dump());
  CHECK(of_compile.empty());
  const std::set<std::string> missing =
      missing_in("sensitivity", {"sensitivity " + source + "/scenarios/bert-large-4-p3dn.json"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what rehearse answers is what its schema describes", "[tools][json]") {
  const std::string call = "rehearse --recording " + jobs + "recording.json";
  const std::set<std::string> missing = missing_in(
      "rehearse", {call, call + " --on g5.xlarge --count 8 --host-factor 2",
                   call + " --set failures.recovery=in_job --set training.steps=100000"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("commands on a job answer on a recorded step as their schemas describe",
          "[tools][json]") {
  const std::string recording = jobs + "recording.json";
  const TestFolder folder;
  const std::string trace = folder.file("trace.json");
  missing_in("rehearse", {"simulate " + recording + " --set cluster.machine=p4d.24xlarge --trace " +
                          trace + " --report " + folder.file("page.html")});
  CHECK(content_of(folder.file("page.html")).find("matrix products") != std::string::npos);
  missing_in("sensitivity", {"sensitivity " + recording});
  missing_in("explain", {"explain " + recording + " --measured " + trace +
                         " --set cluster.machine=p4d.24xlarge"});
  const Answer compared = run("explain " + recording + " --measured " + trace +
                              " --set cluster.machine=p4d.24xlarge --json");
  for (const json& kind : json::parse(compared.out)["joined"]["kinds"])
    CHECK(kind["predicted_runs"] == kind["measured_runs"]);
}

TEST_CASE("what explain answers is what its schema describes", "[tools][json]") {
  const std::string job = "explain " + jobs + "searched.json --set cluster.count=1";
  std::set<std::string> missing =
      missing_in("explain", {job, job +
                                      " --set cluster.machine=p3.16xlarge --set "
                                      "parallelism.data=8 --set training.micro_batch=4 "
                                      "--measured " +
                                      source + "/tests/sim/profiles/two_steps.json"});
  // The predicted step comes from no profile and was not recorded, so it lacks these keys.
  for (const char* path : {".from.kernels", ".from.steps", ".from.trace", ".joined"})
    std::erase_if(missing, [&](const std::string& each) { return each.starts_with(path); });
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

// Values that are measured only on GPUs are not expected here.
TEST_CASE("what train and fit answer is what their schemas describe", "[tools][json]") {
  const TestFolder folder;
  json profile = json::parse(std::ifstream(jobs + "local.json"));
  profile["calibration"] = "calibrated on this machine";  // whose kinds of instructions are timed
  std::ofstream(folder.file("calibrated.json")) << profile;
  const std::string text = folder.file("text", std::string(256, 'x'));
  const json evaluated = {{"files", {text}},
                          {"evaluation", {{"files", {text}}, {"every_steps", 1}}}};
  const std::string train =
      "train " + jobs +
      "tiny.json --set cluster.processes_per_host=1 --set parallelism.data=1 --profile ";
  std::set<std::string> missing = missing_in(
      "train", {train + jobs + "local.json",
                train + jobs + "local.json --set data='" + evaluated.dump() + "'",
                train + folder.file("calibrated.json") + " --set training.precision=fp16 --trace " +
                    folder.file("trace.json")});
  std::erase_if(missing, [](const std::string& path) {
    return path.starts_with(".measured_memory_per_rank");
  });
  INFO(json(missing).dump());
  CHECK(missing.empty());
  json job = json::parse(std::ifstream(source + "/scenarios/llama-2-7b-4-p4d.json"));
  job["model"] = "llama-2-7b";
  job["training"]["micro_batch"] = 1;
  job["parallelism"] = {{"data", 32}, {"zero_stage", 3}};
  const json row = {{"id", "mine"}, {"job", job}, {"measured", {{"step_time_s", 4.4}}}};
  std::ofstream(folder.file("runs.json")) << json{{"source", {{"title", "mine"}}}, {"rows", {row}}};
  missing = missing_in(
      "fit", {"fit --runs " + folder.file("runs.json") + " --output " + folder.file("mine.json")});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what import and export answer is what their schemas describe", "[tools][json]") {
  const TestFolder folder;
  const std::string config =
      folder.file("config.json", R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2,
                         "n_positions": 128, "vocab_size": 512})");
  const std::string settings =
      folder.file("ds_config.json", R"({"train_batch_size": 16, "steps_per_print": 10,
                                        "zero_optimization": {"stage": 1}})");
  const std::string job = folder.file("job.json");
  const std::set<std::string> of_import = missing_in(
      "import", {"import " + job + " --from " + settings + " " + config +
                 " --set cluster.machine=p4d.24xlarge --set training.sequence_length=128"});
  INFO(json(of_import).dump());
  CHECK(of_import.empty());
  const std::string call =
      "export " + job + " --for deepspeed --set training.compiler=none --launcher torchrun";
  const std::set<std::string> of_export =
      missing_in("export", {call, call + " --to " + folder.file("out")});
  INFO(json(of_export).dump());
  CHECK(of_export.empty());
}

TEST_CASE("what evaluate and generate answer is what their schemas describe", "[tools][json]") {
  const TestFolder folder;
  const json data = {{"files", {folder.file("text", std::string(256, 'x'))}}};
  const json checkpoint = {{"folder", folder.file("saved")}, {"every_steps", 3}};
  const std::string job = jobs +
                          "tiny.json --set cluster.processes_per_host=1 --set parallelism.data=1 "
                          "--profile " +
                          jobs + "local.json --set data='" + data.dump() + "' --set checkpoint='" +
                          checkpoint.dump() + "'";
  REQUIRE(run("train " + job).code == 0);
  std::set<std::string> missing = missing_in("evaluate", {"evaluate " + job});
  INFO(json(missing).dump());
  CHECK(missing.empty());
  missing = missing_in("generate", {"generate " + job + " --prompt x --max-tokens 2"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("what share and list answer is what their schemas describe", "[tools][json]") {
  std::set<std::string> missing = missing_in("share", {"share " + jobs + "shared.json"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
  missing = missing_in("list", {"list", "list schedules"});
  INFO(json(missing).dump());
  CHECK(missing.empty());
}

TEST_CASE("schema says what it can describe", "[tools]") {
  CHECK(schema_of("") == schema_of("job"));
  CHECK(schema_of("profile")["title"] == "A machine of meshwright");
  CHECK(run("schema serve").code == 2);
  CHECK(run("schema job plan").code == 2);
}
