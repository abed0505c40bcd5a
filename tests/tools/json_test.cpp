// Tests that `--json` of every command prints one object and nothing else, with the keys that other
// programs use.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

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
             "plan parallelism training cluster step_time_s step_time_interval_s tokens_per_s "
             "peak_memory_bytes usd_per_million_tokens mfu");
  for (const json& rejection : value["rejected"]) check_keys(rejection, "reason count");
  const json again = answer_of("simulate " + folder.file("settled.json"));
  CHECK(again["step_time_s"].get<double>() ==
        Approx(value["plans"][0]["step_time_s"].get<double>()));
  CHECK(content_of(folder.file("p.html")).find("</html>") != std::string::npos);
}

TEST_CASE("no two plans that a search lists read alike", "[tools]") {
  const Answer answer = run("plan " + jobs + "searched.json --top 1000 --wide");
  REQUIRE(answer.code == 0);
  std::istringstream lines(answer.out);
  std::set<std::string> plans;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (!std::regex_search(line, found, std::regex(R"(^\d+ +(\d+ x \S+ +p\d.*?)  )"))) continue;
    CAPTURE(line);
    CHECK(plans.insert(found[1]).second);
  }
  CHECK(plans.size() > 3);
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

// The recorded run took twice the predicted time. The test checks that a profile fitted to it makes
// predictions of that machine slower.
TEST_CASE("fit writes a profile that --profile uses for the machine that it names",
          "[tools][json]") {
  const TestFolder folder;
  json job = json::parse(content_of(jobs + "searched.json"));
  job["cluster"]["machine"] = "p4d.24xlarge";
  job["cluster"]["count"] = 1;
  const std::string settled = folder.file("settled.json");
  std::ofstream(folder.file("job.json")) << job;
  answer_of("plan " + folder.file("job.json") + " --write " + settled);
  const double shipped = answer_of("simulate " + settled)["step_time_s"];
  const json row = {{"id", "mine"},
                    {"job", json::parse(content_of(settled))},
                    {"measured", {{"step_time_s", 2 * shipped}}}};
  std::ofstream(folder.file("runs.json")) << json{{"source", {{"title", "mine"}}}, {"rows", {row}}};
  const std::string profile = folder.file("mine.json");
  const json value = answer_of("fit --runs " + folder.file("runs.json") + " --output " + profile);
  check_keys(value, "machine profile runs constants interval_before interval_after");
  CHECK(value["machine"] == "p4d.24xlarge");
  const double before = value["runs"][0]["before_step_time_s"];
  const double after = value["runs"][0]["after_step_time_s"];
  CHECK(after > 1.2 * before);
  const std::string with_profile = "simulate " + settled + " --profile " + profile;
  const double learned = answer_of(with_profile)["step_time_s"];
  CHECK(learned > 1.2 * shipped);
  CHECK(answer_of(with_profile + " --set cluster.machine=ml.p4d.24xlarge")["step_time_s"] ==
        learned);
  const std::string errors = folder.file("errors");
  CHECK(run(with_profile + " --set cluster.machine=p4de.24xlarge", errors).code == 2);
  CHECK(content_of(errors) == "error: " + profile +
                                  ": is a profile of 'p4d.24xlarge', the job's machine is "
                                  "'p4de.24xlarge'\n");
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
             "workspace_bytes communication_bytes peak_bytes peak_tensors");
  check_keys(value["memory"][0]["peak_tensors"][0], "name class bytes count");
  CHECK(value["total_time_s"].get<double>() == Approx(3 * value["step_time_s"].get<double>()));
  CHECK(!json::parse(content_of(folder.file("t.json")))["traceEvents"].empty());
}

namespace {

// Returns the first fault in the nesting of a page's elements, or "" if every element is closed in
// turn. Elements that HTML leaves empty need not be closed, and the text of scripts and styles is
// not looked at.
std::string badly_nested(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    at = end + 1;
    if (tag[0] == '!' || tag.back() == '/' || name == "meta") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      if (name == "script" || name == "style") at = page.find("</" + name, at);
    } else if (open.empty() || "/" + open.back() != name) {
      return "<" + tag + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  return text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
}

}  // namespace

TEST_CASE("simulate writes a page that needs nothing else and says what --json says",
          "[tools][json]") {
  const TestFolder folder;
  // With 32 sequences each span of the timeline is an instruction. With 64 there are so many that a
  // span is a whole task.
  const int batch = GENERATE(32, 64);
  const json value = answer_of("simulate " + source + "/scenarios/gpt2-xl-p3-interleaved.json" +
                               " --set training.global_batch=" + std::to_string(batch) +
                               " --report " + folder.file("r.html"));
  const std::string page = content_of(folder.file("r.html"));
  CHECK(badly_nested(page) == "");
  for (const char* elsewhere : {"http:", "https:", "src=", "href=", "@import", "url("})
    CHECK(page.find(elsewhere) == std::string::npos);
  const double step = value["step_time_s"];
  const json drawn = json::parse(
      between(page, "<script type=\"application/json\" id=\"timeline-data\">", "</script>"));
  CHECK(drawn["step_us"].get<double>() == Approx(step * 1e6));
  double last = 0;
  std::size_t spans = 0;
  for (const json& lane : drawn["lanes"])
    for (const json& span : lane["spans"]) {
      ++spans;
      last = std::max(last, span[0].get<double>() + span[1].get<double>());
      CHECK(span[2].get<std::size_t>() < drawn["words"].size());
      CHECK(span[3].get<std::size_t>() < drawn["sorts"].size());
    }
  CHECK(last == Approx(step * 1e6));
  const auto instructions = value["instructions"].get<std::size_t>();
  CHECK((batch == 32 ? spans == instructions : spans < instructions / 10));
  REQUIRE(value["stages"].size() == 4);
  for (const json& stage : value["stages"]) {
    double sum = 0;
    for (const char* key : {"compute_s", "launch_s", "bubble_s", "idle_s"})
      sum += stage[key].get<double>();
    for (const json& exposed : stage["exposed_s"]) sum += exposed.get<double>();
    CHECK(sum == Approx(step));
    char share[64];
    std::snprintf(share, sizeof share, "(%.1f %%)", 100 * stage["compute_s"].get<double>() / step);
    CHECK(page.find(share) != std::string::npos);
  }
}

TEST_CASE("simulate answers with the goodput where hosts fail", "[tools][json]") {
  const std::string job = "simulate " + source + "/scenarios/gpt2-xl-p3-interleaved.json";
  const json healthy = answer_of(job);
  const json failing =
      answer_of(job +
                " --set failures.hardware_per_host_hour=0.0036 --set checkpoint.folder=saved"
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

TEST_CASE("scale shows how goodput falls with the number of hosts that may fail", "[tools][json]") {
  const std::string job =
      "scale " + jobs + "searched.json --set failures.hardware_per_host_hour=0.036";
  const json points = answer_of(job)["points"];
  REQUIRE(points.size() == 2);
  const double one = points[0]["goodput"], several = points[1]["goodput"];
  CHECK(one < 1);
  CHECK(several < one);
  CHECK(several > 0);
  CHECK(run(job).out.find("goodput") != std::string::npos);
  CHECK(run("scale " + jobs + "searched.json").out.find("goodput") == std::string::npos);
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
  CHECK(scaled["points"][0]["goodput"].is_null());
  const json scores =
      answer_of("validate " + source + "/scenarios/evidence/vtrain_single_node_a100.json");
  check_keys(scores,
             "rows sources overall machines peak_memory scaling fits collectives_from_1_MiB "
             "skipped");
  for (const json& summary : scores["sources"])
    check_keys(summary, "source rows mape median_ape p90_ape bias");
  const json machines = answer_of("list machines");
  CHECK(machines["machines"].size() >= 22);
}

TEST_CASE("compile answers in JSON", "[tools][json]") {
  const json value = answer_of("compile " + jobs + "tiny.json" + one_rank + " --measure");
  check_keys(value, "name machine count parallelism training levels frameworks");
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
    // For k times the batch the learning rate is k times as large by one rule, and the root of k
    // times by the other.
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

TEST_CASE("the numbers of simulate --json agree with each other", "[tools][json]") {
  for (const char* name : {"gpt2-xl-p3-interleaved", "gpt-j-6b-smp", "mixtral-8x7b-8-p5"}) {
    CAPTURE(name);
    const std::string job = source + "/scenarios/" + name + ".json";
    const json value = answer_of("simulate " + job);
    const auto number = [&](const char* key) { return value[key].get<double>(); };
    const json& training = value["training"];
    const double step = number("step_time_s"), batch = training["global_batch"];
    CHECK(number("sequences_per_s") == Approx(batch / step));
    CHECK(number("tokens_per_s") ==
          Approx(batch * training["sequence_length"].get<double>() / step));
    CHECK(number("usd_per_million_tokens") ==
          Approx(number("usd_per_hour") / 3600 / number("tokens_per_s") * 1e6));
    CHECK(number("total_time_s") == Approx(step));
    const json machine = answer_of("list machines " + value["machine"].get<std::string>());
    const double peak = machine["gpu"]["peak_flop_per_s"][training["precision"].get<std::string>()];
    CHECK(number("mfu") == Approx(number("model_flops_per_s_per_gpu") / peak));
    const json given = json::parse(content_of(job));
    CHECK(batch == given["training"]["global_batch"].get<double>());
    double fullest = 0;
    for (const json& stage : value["memory"]) {
      fullest = std::max(fullest, stage["peak_bytes"].get<double>());
      double largest = 0;
      for (const json& tensor : stage["peak_tensors"]) {
        const double bytes = tensor["bytes"];
        CHECK(bytes > 0);
        largest = std::max(largest, bytes);
      }
      CHECK(largest <= stage["peak_bytes"].get<double>());
      // The bytes of each class are those at its own peak, so together they are at least the peak
      // of the stage.
      double together = stage["library_bytes"];
      CHECK(together < stage["peak_bytes"].get<double>());
      for (const char* kind :
           {"parameters", "gradients", "optimizer", "activations", "workspace", "communication"})
        together += stage[std::string(kind) + "_bytes"].get<double>();
      CHECK(stage["peak_bytes"].get<double>() <= together);
    }
    CHECK(number("peak_memory_bytes") == fullest);
    CHECK(value["fits"] == (fullest <= number("memory_limit_bytes")));
  }
}

TEST_CASE("every command obeys what SageMaker's environment says, and says so", "[tools]") {
  const std::string variable =
      R"(env SM_HP_MP_PARAMETERS='{"microbatches": 8, "sdp_reduce_bucket_size": 7}' )";
  const std::string job = " " + source + "/scenarios/gpt-j-6b-smp.json";
  const std::string keys = "distribution.smdistributed.modelparallel.parameters.";
  const std::string set = " --set " + keys + "microbatches=8";
  for (const char* command : {"simulate", "compile"}) {
    const std::string plain = command + job + " --json";
    const auto training = [](const Answer& answer) { return json::parse(answer.out)["training"]; };
    const json in_environment = training(run_line(variable + MESHWRIGHT_PROGRAM " " + plain));
    CHECK(in_environment == training(run(plain + set)));
    CHECK(in_environment != training(run(plain)));
    // Settings of the command line take precedence over those of the environment.
    CHECK(training(run_line(variable + MESHWRIGHT_PROGRAM " " + plain + " --set " + keys +
                            "microbatches=4")) == training(run(plain)));
  }
  const Answer aloud = run_line(variable + MESHWRIGHT_PROGRAM " simulate" + job, "&1");
  CHECK(aloud.out.find("SageMaker's environment says: ") != std::string::npos);
  CHECK(aloud.out.find(keys + "microbatches=8") != std::string::npos);
}

TEST_CASE("plan says what its objective counts", "[tools]") {
  const std::string plan = "plan " + source + "/scenarios/gpt2-xl-p3-interleaved.json";
  const std::string most = plan + " --set objective.minimize=tokens --set objective.budget_usd=100";
  const json best = answer_of(most)["plans"][0];
  const double tokens = best["total_tokens"];
  const double start_usd =
      best["start_s"].get<double>() / 3600 * best["usd_per_hour"].get<double>();
  CHECK(start_usd > 0);
  CHECK(tokens * best["usd_per_million_tokens"].get<double>() / 1e6 + start_usd == Approx(100));
  char shown[32];
  std::snprintf(shown, sizeof shown, "%.1f M", tokens / 1e6);
  CHECK(run(most).out.find(shown) != std::string::npos);
  CHECK(run(plan).out.find("  tokens  ") == std::string::npos);
  const std::string priceless = "plan " + jobs + "tiny.json --profile " + jobs + "local.json";
  const std::string says =
      "/objective: local has no on demand price: plans are ranked by step time";
  CHECK(run(priceless + " --set objective.minimize=usd", "&1").out.find(says) != std::string::npos);
  CHECK(run(priceless, "&1").out.find("price") == std::string::npos);
}

TEST_CASE("missing memory is shown in a unit that makes it visible", "[tools]") {
  // The limit is just below the peak, so of 6.1 GiB only 1 MiB is missing.
  const TestFolder folder;
  json profile = answer_of("list machines p3.2xlarge");
  profile["name"] = "local";
  profile.erase("framework");
  const std::string job =
      " --set cluster.machine=local --set cluster.count=1 --set "
      "parallelism.data=1 --set training.micro_batch=1 --profile " +
      folder.file("gpu.json");
  std::ofstream(folder.file("gpu.json")) << profile;
  const std::string gpt2 = "simulate " + source + "/tests/tools/tiny.json" + job;
  const double peak = answer_of(gpt2 + " --set cluster.processes_per_host=1")["peak_memory_bytes"];
  profile["gpu"]["memory_bytes"] = peak - (1 << 20);
  std::ofstream(folder.file("gpu.json")) << profile;
  const std::string open =
      "plan" + gpt2.substr(8) +
      " --set cluster.processes_per_host=1 --set parallelism.tensor=auto --memory-margin 0 "
      "--set parallelism.pipeline=1 --set parallelism.zero_stage=0 --set parallelism.offload=none "
      "--set training.recompute=none";
  const Answer answer = run(open, "&1");
  CAPTURE(peak, answer.out);
  CHECK(answer.code == 3);
  CHECK(answer.out.find("closest needs 1.0 MiB too much for ") != std::string::npos);
  CHECK(answer.out.find("(closest: 1.0 MiB too much for ") != std::string::npos);
}

TEST_CASE("names from files move no terminal", "[tools]") {
  // The job, its model and a key get names with control characters.
  const TestFolder folder;
  json job = json::parse(content_of(jobs + "tiny.json"));
  job["name"] = job["model"]["name"] = "n\x1b]0;owned\x07\xc2\x9b";
  std::ofstream(folder.file("job.json")) << job;
  job["k\x1b[2J"] = 1;
  std::ofstream(folder.file("key.json")) << job;
  for (const std::string& arguments :
       {"plan " + folder.file("job.json"), "simulate " + folder.file("job.json"),
        "simulate --json " + folder.file("job.json"), "train " + folder.file("job.json") + one_rank,
        "plan " + folder.file("key.json"),
        "simulate " + jobs + "tiny.json --set name=1 --set 'a\x1b=1'"}) {
    const Answer answer = run(arguments, "&1");
    CAPTURE(arguments, answer.out);
    CHECK(answer.out.size() > 10);
    CHECK(answer.out.find_first_of("\x1b\x07") == std::string::npos);
    CHECK(answer.out.find("\xc2\x9b") == std::string::npos);
  }
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
  for (const char* name : {"gpu-gpt2", "gpu-gpt2-xl", "gpu-llama-1b"}) {
    const json value = answer_of("simulate " + source + "/scenarios/" + name + ".json --profile " +
                                 source + "/hwprofiles/machines/dgx-h100.json");
    CHECK(value["fits"].get<bool>());
  }
}

TEST_CASE("plan saves the stages of the modules, and a job reads them again", "[tools][json]") {
  const TestFolder folder;
  const std::string job = source + "/scenarios/gpt-neox-20b-12-p4d.json";
  const std::string saved = folder.file("stages.json");
  const std::string planned = folder.file("planned.json");  // a search opens what a job leaves out
  answer_of("plan " + job + " --write " + planned + " --write-partition " + saved);
  const json partition = json::parse(content_of(saved));
  CHECK(partition["format"] == 1);
  CHECK(partition["stage_of"].contains("gpt_neox.embed_in"));
  const json expected = answer_of("simulate " + planned);
  const json again = answer_of("simulate " + planned + " --set parallelism.partition=" + saved);
  CHECK(again["step_time_s"] == expected["step_time_s"]);
  CHECK(again["memory"] == expected["memory"]);
}

TEST_CASE("explain says what one plan takes longer for than another", "[tools][json]") {
  const json value = answer_of("explain " + jobs + "searched.json --set training.global_batch=16");
  check_keys(value, "from to change_ps changes");
  std::int64_t sum = 0;
  for (const json& each : value["changes"]) {
    check_keys(each, "cause from_ps to_ps change_ps");
    sum += each["change_ps"].get<std::int64_t>();
  }
  CHECK(sum == value["change_ps"].get<std::int64_t>());
  CHECK(sum == value["to"]["step_time_ps"].get<std::int64_t>() -
                   value["from"]["step_time_ps"].get<std::int64_t>());
  CHECK(sum != 0);
  const json same = answer_of("explain " + jobs + "searched.json " + jobs + "searched.json");
  CHECK(same["change_ps"] == 0);
  CHECK(same["changes"].empty());
  CHECK(same["to"]["fits"] == true);
  const json large = answer_of("explain " + source +
                               "/scenarios/gpt3-175b-128-p4de.json --set training.recompute=none "
                               "--set training.micro_batch=8 --set training.global_batch=1536");
  CHECK(large["to"]["fits"] == false);
}

TEST_CASE("explain compares a prediction with a profile of PyTorch", "[tools][json]") {
  const std::string profiles = source + "/tests/sim/profiles/";
  const std::string job = "explain " + jobs + "searched.json --set cluster.count=1";
  const std::string eight = job +
                            " --set cluster.machine=p3.16xlarge --set parallelism.data=8 "
                            "--set training.micro_batch=4 --measured " +
                            profiles + "two_steps.json";
  const json value = answer_of(eight);
  check_keys(value["to"], "parts communication steps kernels trace step_time_ps tokens_per_s");
  CHECK(value["to"]["steps"] == 2);
  CHECK(value["to"]["step_time_ps"] == 192'500'000);
  std::int64_t sum = 0, largest = std::numeric_limits<std::int64_t>::max();
  for (const json& each : value["changes"]) {
    const std::int64_t change = each["change_ps"];
    CHECK(std::abs(change) <= largest);
    largest = std::abs(change);
    sum += change;
  }
  CHECK(sum == value["to"]["step_time_ps"].get<std::int64_t>() -
                   value["from"]["step_time_ps"].get<std::int64_t>());
  for (const char* side : {"from", "to"}) {
    std::int64_t parts = 0;
    for (const json& each : value[side]["parts"]) parts += each["time_ps"].get<std::int64_t>();
    CHECK(parts == value[side]["step_time_ps"].get<std::int64_t>());
  }
  const Answer text = run(eight + " --wide");
  CHECK(text.code == 0);
  CHECK(text.out.find("the mean of ProfilerSteps 3 to 4") != std::string::npos);
  CHECK(text.out.find("reduce_kernel") != std::string::npos);
  const Answer whole =
      run(job + " --set cluster.machine=p3.2xlarge --measured " + profiles + "no_steps.json");
  CHECK(whole.code == 0);
  CHECK(whole.out.find("all of it is taken as one step") != std::string::npos);

  const TestFolder folder;
  const auto refusal = [&](const std::string& file) {
    const Answer answer = run(job + " --measured " + profiles + file, folder.file("errors"));
    CHECK(answer.code == 2);
    CHECK(answer.out.empty());
    const std::string line = content_of(folder.file("errors"));
    CHECK(std::ranges::count(line, '\n') == 1);
    CHECK(line.starts_with("error: " + profiles + file + ": "));
    return line.substr(line.find(": ", line.find(".json")) + 2);
  };
  CHECK(refusal("two_steps.json").starts_with("is of a run of 8 ranks, the job's plan has "));
  CHECK(refusal("cpu_only.json").starts_with("holds no kernel of a GPU"));
  CHECK(refusal("cut_off.json").starts_with("is cut off"));
  CHECK(refusal("broken.json").starts_with("is no JSON at byte "));
}

TEST_CASE("simulate writes Chakra's traces, a file for every rank", "[tools]") {
  const TestFolder folder;
  const std::string simulate =
      "simulate " + jobs + "searched.json --set cluster.count=1 --set parallelism.data=4";
  CHECK(run(simulate + " --trace " + folder.file("step") + " --trace-format chakra").code == 0);
  for (int rank = 0; rank < 4; ++rank)
    CHECK(fs::file_size(folder.file("step." + std::to_string(rank) + ".et")) > 1000);
  CHECK_FALSE(fs::exists(folder.file("step.4.et")));
  CHECK_FALSE(fs::exists(folder.file("step")));
  const auto refusal = [&](const std::string& options) {
    const Answer answer = run(simulate + options, folder.file("errors"));
    CHECK(answer.code == 2);
    return content_of(folder.file("errors"));
  };
  CHECK(refusal(" --trace " + folder.file("t") + " --trace-format chacra") ==
        "error: --trace-format: unknown format 'chacra'; use chrome or chakra\n");
  CHECK(refusal(" --trace-format chakra") ==
        "error: --trace-format: goes with --trace FILE, which names what is written\n");
}

TEST_CASE("advise ends with a command that plans the rung where it stops", "[tools][json]") {
  const json value = answer_of("advise " + jobs + "searched.json");
  check_keys(value, "name ladders best");
  const json& best = value["best"];
  check_keys(best, "machine count processes_per_host reason command risk useful_global_batch");
  for (const json& ladder : value["ladders"]) {
    check_keys(ladder, "machine rungs stop reason");
    for (const json& rung : ladder["rungs"]) {
      check_keys(rung, "machine count processes_per_host gpus");
      CHECK((rung.contains("reason") || rung["efficiency"].get<double>() > 0));
    }
  }
  // The command is "meshwright plan JOB --set ... --write planned.json && ...".
  const std::string command = best["command"];
  const std::string plan = command.substr(0, command.find(" --write"));
  const json planned = answer_of(plan.substr(plan.find(' ') + 1));
  CHECK(planned["plans"][0]["cluster"]["machine"] == best["machine"]);
  CHECK(planned["plans"][0]["cluster"]["count"] == best["count"]);
}

TEST_CASE("sensitivity says what each input moves, the most first", "[tools][json]") {
  const json value =
      answer_of("sensitivity " + jobs + "tiny.json --set cluster.machine=p3.16xlarge");
  check_keys(value, "name machine count parallelism training answer time_s tokens usd inputs");
  CHECK(value["answer"] == "time_s");
  CHECK(value["inputs"].size() >= 10);
  double before = std::numeric_limits<double>::infinity();
  for (const json& input : value["inputs"]) {
    check_keys(input, "input low high width");
    for (const char* end : {"low", "high"}) check_keys(input[end], "value time_s usd tokens");
    CHECK(input["width"].get<double>() <= before);
    before = input["width"];
  }
  CHECK(value["inputs"][0]["width"].get<double>() > 0);
}

TEST_CASE("deadline and budget are asked on the command line", "[tools][json]") {
  const std::string job = jobs + "searched.json --set training.steps=100000";
  const auto best = [](const std::string& command) {
    const json value = answer_of(command);
    REQUIRE(!value["plans"].empty());
    json plan = value["plans"][0];
    plan.erase("simulation_wall_s");
    return plan;
  };
  CHECK(best("plan " + job + " --by 30d") ==
        best("plan " + job + " --set objective.deadline_s=2592000 --set objective.minimize=usd"));
  CHECK(best("plan " + job + " --budget 100000") ==
        best("plan " + job + " --set objective.budget_usd=100000"));
  CHECK(best("plan " + jobs + "searched.json --budget 500") ==
        best("plan " + jobs +
             "searched.json --set objective.budget_usd=500 --set "
             "objective.minimize=tokens"));
  // Values of --set take precedence over --by.
  CHECK(best("plan " + job + " --by 4w --set objective.minimize=step_time") ==
        best("plan " + job + " --set objective.deadline_s=2419200"));
}

TEST_CASE("share says what jobs on one fabric cost each other", "[tools][json]") {
  const json value = answer_of("share " + jobs + "shared.json");
  check_keys(value, "jobs");
  REQUIRE(value["jobs"].size() == 2);
  int next = 1;
  for (const json& job : value["jobs"]) {
    check_keys(job,
               "name machine count first_host parallelism step_time_alone_s step_time_s slow_down "
               "sends_to_spine spine_share");
    CHECK(job["first_host"] == next);
    next += job["count"].get<int>();
    CHECK(job["slow_down"].get<double>() > 1.01);
    CHECK(job["spine_share"].get<double>() < 1);
  }
}
