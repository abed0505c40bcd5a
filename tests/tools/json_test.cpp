// `--json` of every command: one object and nothing else, with the keys that others rely on.
#include <sys/wait.h>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/test_folder.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string source = MESHWRIGHT_SOURCE_DIR;
const std::string jobs = source + "/tests/tools/";
const std::string one_rank =
    " --set cluster.processes_per_host=1 --set parallelism.data=1 --profile " + jobs + "local.json";

struct Answer {
  int code = -1;
  std::string out;
};

Answer run(const std::string& arguments, const std::string& errors = "/dev/null") {
  const std::string command = MESHWRIGHT_PROGRAM " " + arguments + " 2>" + errors;
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Answer answer;
  char text[4096];
  for (std::size_t n; (n = fread(text, 1, sizeof text, pipe)) > 0;) answer.out.append(text, n);
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

// Parsing fails on anything beside the one object.
json answer_of(const std::string& arguments) {
  const Answer answer = run(arguments + " --json");
  CAPTURE(arguments, answer.out);
  REQUIRE(answer.code == 0);
  json value = json::parse(answer.out);
  REQUIRE(value.is_object());
  return value;
}

void check_keys(const json& value, const std::string& keys) {
  std::istringstream words(keys);
  for (std::string key; words >> key;) {
    CAPTURE(key, value.dump());
    CHECK(value.contains(key));
  }
}

}  // namespace

TEST_CASE("plan answers in JSON, and writes a job that needs no search", "[tools][json]") {
  const TestFolder folder;
  const json value = answer_of("plan " + jobs + "searched.json --top 2 --write " +
                               folder.file("settled.json") + " --report " + folder.file("p.html"));
  check_keys(value, "search_wall_s candidates_enumerated candidates_simulated plans rejected");
  REQUIRE(!value["plans"].empty());
  check_keys(value["plans"][0],
             "parallelism training cluster step_time_s tokens_per_s peak_memory_bytes "
             "usd_per_million_tokens mfu");
  for (const json& rejection : value["rejected"]) check_keys(rejection, "reason count");
  const json again = answer_of("simulate " + folder.file("settled.json"));
  CHECK(again["step_time_s"].get<double>() ==
        Approx(value["plans"][0]["step_time_s"].get<double>()));
  CHECK(content_of(folder.file("p.html")).find("</html>") != std::string::npos);
}

TEST_CASE("a job written elsewhere still finds its model", "[tools][json]") {
  const TestFolder folder;
  json job = json::parse(content_of(jobs + "searched.json"));
  std::ofstream(folder.file("small.json"))
      << R"({"family": "gpt", "hidden": 64, "layers": 4, "heads": 4, "vocab": 99, "positions": 512})";
  job["model"] = "small.json";
  std::ofstream(folder.file("job.json")) << job;
  fs::create_directory(folder.file("elsewhere"));
  const std::string written = folder.file("elsewhere/settled.json");
  answer_of("plan " + folder.file("job.json") + " --write " + written);
  CHECK(json::parse(content_of(written))["model"] == "../small.json");
  answer_of("simulate " + written);
}

TEST_CASE("a plan that does not exist is exit code 3", "[tools]") {
  const Answer answer = run("simulate " + jobs + "searched.json --set model=gpt3-175b --json");
  CHECK(answer.code == 3);
  CHECK(answer.out.empty());
}

TEST_CASE("simulate answers in JSON and writes a trace", "[tools][json]") {
  const TestFolder folder;
  const json value = answer_of("simulate " + source + "/scenarios/gpt2-xl-p3-interleaved.json" +
                               " --trace " + folder.file("t.json") + " --steps 3");
  check_keys(value,
             "step_time_s sequences_per_s tokens_per_s model_flops_per_s_per_gpu mfu "
             "bubble_fraction exposed_communication_s fits peak_memory_bytes memory usd_per_hour "
             "usd_per_million_tokens instructions simulation_wall_s");
  CHECK(value["memory"].size() == 4);
  check_keys(value["memory"][0],
             "stage parameters_bytes gradients_bytes optimizer_bytes activations_bytes "
             "workspace_bytes communication_bytes peak_bytes");
  CHECK(value["total_time_s"].get<double>() == Approx(3 * value["step_time_s"].get<double>()));
  CHECK(!json::parse(content_of(folder.file("t.json")))["traceEvents"].empty());
}

TEST_CASE("simulate answers with the goodput where hosts fail", "[tools][json]") {
  const std::string job = "simulate " + source + "/scenarios/gpt2-xl-p3-interleaved.json";
  const json healthy = answer_of(job);
  const json failing =
      answer_of(job +
                " --set faults.mean_time_between_failures_s=1e6 --set checkpoint.folder=saved"
                " --set checkpoint.every_steps=1000");
  for (const char* key : {"goodput", "checkpoint_interval_s", "checkpoint_write_s", "best_goodput",
                          "best_checkpoint_interval_s", "cluster_mean_time_between_failures_s"}) {
    CHECK(healthy[key].is_null());
    CHECK(failing[key].get<double>() > 0);
  }
  CHECK(failing["step_time_s"] == healthy["step_time_s"]);
  CHECK(failing["checkpoint_interval_s"].get<double>() ==
        Approx(1000 * failing["step_time_s"].get<double>()));
  CHECK(failing["goodput"].get<double>() < failing["best_goodput"].get<double>());
  CHECK(failing["best_goodput"].get<double>() < 1);
}

TEST_CASE("train says that faults have no effect, and predicts without them", "[tools]") {
  const std::string train = "train " + jobs + "tiny.json" + one_rank;
  const std::string slow = R"( --set 'faults.slow_ranks=[{"rank": 0, "factor": 9999}]')";
  CHECK(run(train + slow, "&1").out.find("/faults: no effect here") != std::string::npos);
  CHECK(answer_of(train + slow)["predicted_step_time_s"] ==
        answer_of(train)["predicted_step_time_s"]);
}

TEST_CASE("train answers in JSON and logs each step", "[tools][json]") {
  const TestFolder folder;
  const json value = answer_of("train " + jobs + "tiny.json" + one_rank + " --steps 4 --log-json " +
                               folder.file("log.jsonl") + " --trace " + folder.file("t.json") +
                               " --report " + folder.file("r.html"));
  check_keys(value,
             "predicted_step_time_s measured_step_time_s predicted_peak_memory_bytes "
             "measured_peak_memory_bytes final_loss parameters_sha256");
  CHECK(value["steps"] == 4);
  std::istringstream lines(content_of(folder.file("log.jsonl")));
  int steps = 0;
  double loss = 0;
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line);
    check_keys(entry, "step loss grad_norm learning_rate step_time_s tokens_per_s");
    CHECK(entry["step"] == ++steps);
    loss = entry["loss"];
  }
  CHECK(steps == 4);
  CHECK(loss == value["final_loss"].get<double>());  // numbers round-trip
  CHECK(!json::parse(content_of(folder.file("t.json")))["traceEvents"].empty());
  CHECK(content_of(folder.file("r.html")).find("<svg") != std::string::npos);
}

TEST_CASE("scale, validate and list answer in JSON", "[tools][json]") {
  const json scaled = answer_of("scale " + jobs + "searched.json");
  REQUIRE(scaled["points"].size() == 2);
  check_keys(scaled["points"][0],
             "machine count gpus tokens_per_s efficiency usd_per_million_tokens");
  const json scores =
      answer_of("validate " + source + "/scenarios/evidence/vtrain_single_node_a100.json");
  check_keys(scores, "rows sources overall skipped");
  for (const json& summary : scores["sources"])
    check_keys(summary, "source rows mape median_ape p90_ape bias");
  const json machines = answer_of("list machines");
  CHECK(machines["machines"].size() >= 22);
}

TEST_CASE("compile answers in JSON", "[tools][json]") {
  const json value = answer_of("compile " + jobs + "tiny.json" + one_rank + " --measure");
  check_keys(value, "name machine count parallelism training levels");
  REQUIRE(value["levels"].size() == 3);
  for (const json& level : value["levels"]) {
    check_keys(level,
               "compiler kernels bytes_moved step_time_s measured_step_time_s fits "
               "peak_memory_bytes memory compile_wall_s passes largest");
    CHECK(level["measured_step_time_s"].get<double>() > 0);
    double kernels = 0;
    for (const json& pass : level["passes"]) {
      check_keys(pass,
                 "name wall_s kernels kernels_saved bytes_moved bytes_moved_saved "
                 "kept_activation_bytes kept_activation_bytes_saved compute_before_s "
                 "compute_after_s");
      if (kernels > 0)
        CHECK(pass["kernels"].get<double>() + pass["kernels_saved"].get<double>() == kernels);
      kernels = pass["kernels"];
    }
    // The rate grows with the batch: k and its root.
    const double k = level["largest"]["micro_batch"].get<double>() / 2;
    CHECK(level["largest"]["learning_rate_linear"].get<double>() == Approx(1e-3 * k));
    CHECK(level["largest"]["learning_rate_square_root"].get<double>() ==
          Approx(1e-3 * std::sqrt(k)));
  }
}

TEST_CASE("what a pipe receives holds no progress bar", "[tools]") {
  const Answer answer = run("train " + jobs + "tiny.json" + one_rank, "&1");
  CHECK(answer.code == 0);
  CHECK(answer.out.find('\r') == std::string::npos);
}

TEST_CASE("output that cannot be written is a failure", "[tools]") {
  CHECK(run("list models >/dev/full").code == 4);
}

TEST_CASE("scenarios that are searched or need a profile simulate too", "[tools][scenarios]") {
  for (const char* name : {"gpt2-local", "quickstart-train", "llama-2-7b-4-p4d"}) {
    const json value = answer_of("simulate " + source + "/scenarios/" + name + ".json --profile " +
                                 jobs + "local.json");
    CHECK(value["step_time_s"].get<double>() > 0);
  }
}

TEST_CASE("plan saves the stages of the modules, and a job reads them again", "[tools][json]") {
  const TestFolder folder;
  const std::string job = source + "/scenarios/gpt-neox-20b-12-p4d.json";
  const std::string saved = folder.file("stages.json");
  answer_of("plan " + job + " --write-partition " + saved);
  const json partition = json::parse(content_of(saved));
  CHECK(partition["format"] == 1);
  CHECK(partition["stage_of"].contains("gpt_neox.embed_in"));
  const json expected = answer_of("simulate " + job);
  const json again = answer_of("simulate " + job + " --set parallelism.partition=" + saved);
  CHECK(again["step_time_s"] == expected["step_time_s"]);
  CHECK(again["memory"] == expected["memory"]);
}
