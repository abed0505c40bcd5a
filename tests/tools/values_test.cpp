// Tests that the numbers of `--json` agree with each other, with those of other commands about the
// same plan, and with what the text shows.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

double number(const json& value, const char* key) {
  INFO(key);
  return value.at(key).get<double>();
}

double tokens_of(const json& training) {
  return number(training, "global_batch") * number(training, "sequence_length");
}

// Returns the job of a plan that was found. No key is left to the planner.
std::string settled(const TestFolder& folder, json job, const json& plan) {
  job["parallelism"] = plan.at("parallelism");
  for (const char* key : {"global_batch", "micro_batch", "precision", "recompute", "attention",
                          "compiler", "recompute_fraction"})
    job["training"][key] = plan.at("training").at(key);
  job["cluster"] = plan.contains("cluster")
                       ? plan["cluster"]
                       : json{{"machine", plan.at("machine")}, {"count", plan.at("count")}};
  return folder.file("settled.json", job.dump());
}

std::string with_decimals(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

bool shows(const std::string& line, const std::string& what) {
  INFO(line << " shows " << what);
  return line.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("each plan that is proposed is what simulate says of it", "[tools][json]") {
  const TestFolder folder;
  const std::string path = jobs + "searched.json";
  const json job = json::parse(content_of(path));
  const json value = answer_of("plan " + path);
  const json& plans = value["plans"];
  REQUIRE(plans.size() >= 5);
  double before = 0, on_one = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const json& plan = plans[i];
    CAPTURE(i, plan.dump());
    const double step = number(plan, "step_time_s"), dollars = number(plan, "usd_per_hour");
    CHECK(step >= before);  // time is what this job minimizes
    before = step;
    on_one += plan["cluster"]["count"] == 1;
    CHECK(number(plan, "tokens_per_s") == Approx(tokens_of(plan["training"]) / step));
    CHECK(number(plan, "usd_per_million_tokens") ==
          Approx(dollars / 3600 / number(plan, "tokens_per_s") * 1e6));
    CHECK(number(plan, "gpus") == 4 * number(plan["cluster"], "count"));  // p3.8xlarge has 4
    CHECK(number(plan, "total_tokens") == tokens_of(plan["training"]));   // one step
    CHECK(number(plan, "start_s") == 0);                                  // one step is no run
    CHECK(number(plan, "total_time_s") == Approx(step));
    CHECK(number(plan, "total_usd") == Approx(dollars * step / 3600));
    if (i >= 3 && i + 1 < plans.size()) continue;
    const json simulated = answer_of("simulate " + settled(folder, job, plan));
    for (const char* key :
         {"step_time_s", "tokens_per_s", "peak_memory_bytes", "usd_per_hour",
          "usd_per_million_tokens", "mfu", "bubble_fraction", "exposed_communication_s"}) {
      CAPTURE(key);
      CHECK(number(simulated, key) == Approx(number(plan, key)));
    }
    CHECK(simulated["fits"] == true);
  }
  CHECK(on_one > 0);  // the best of each cluster is there
  // A plan is on the front unless another one is at least as fast and as cheap, and better in one
  // of them.
  for (const json& plan : plans) {
    const bool beaten = std::ranges::any_of(plans, [&](const json& other) {
      const double faster = number(plan, "step_time_s") - number(other, "step_time_s");
      const double cheaper =
          number(plan, "usd_per_million_tokens") - number(other, "usd_per_million_tokens");
      return faster >= 0 && cheaper >= 0 && faster + cheaper > 0;
    });
    CHECK(plan["pareto"] == !beaten);
  }
  double rejected = 0;
  for (const json& rejection : value["rejected"]) rejected += number(rejection, "count");
  CHECK(number(value, "candidates_enumerated") >= number(value, "candidates_simulated"));
  CHECK(rejected <= number(value, "candidates_enumerated"));
  CHECK(number(value, "proven_gap") >= 0);
  CHECK(number(value, "memory_margin") == Approx(0.03));  // what is left free by default
}

TEST_CASE("the best plan of a run includes its start", "[tools][json]") {
  const json best =
      answer_of("plan " + jobs + "searched.json --set training.steps=100")["plans"][0];
  const double seconds = 100 * number(best, "step_time_s") + 600;
  CHECK(number(best, "start_s") == 600);
  CHECK(number(best, "total_time_s") == Approx(seconds));
  CHECK(number(best, "total_usd") == Approx(seconds * number(best, "usd_per_hour") / 3600));
}

TEST_CASE("the table of plans shows the numbers of --json", "[tools][json]") {
  const std::string command = "plan " + jobs + "searched.json";
  const json best = answer_of(command)["plans"][0];
  const std::string text = run(command + " --wide").out;
  const std::string line = text.substr(text.find("\n1  "), text.find("\n2  ") - text.find("\n1  "));
  CHECK(shows(line, with_decimals(number(best, "step_time_s") * 1e3, 1) + " ms"));
  CHECK(shows(line, with_decimals(number(best, "tokens_per_s"), 0)));
  CHECK(shows(line, with_decimals(number(best, "mfu") * 100, 1) + " %"));
  CHECK(shows(line, with_decimals(number(best, "peak_memory_bytes") / (1 << 30), 1) + " GiB"));
  CHECK(shows(line, "$" + with_decimals(number(best, "usd_per_hour"), 2)));
  CHECK(shows(line, "$" + with_decimals(number(best, "usd_per_million_tokens"), 4)));
}

TEST_CASE("each point of scale is the best plan of its cluster", "[tools][json]") {
  const TestFolder folder;
  const std::string path = jobs + "searched.json";
  const json job = json::parse(content_of(path));
  const json points = answer_of("scale " + path)["points"];
  REQUIRE(points.size() == 2);
  const double first = number(points[0], "tokens_per_s") / number(points[0], "gpus");
  for (const json& point : points) {
    CAPTURE(point.dump());
    CHECK(number(point, "gpus") == 4 * number(point, "count"));
    CHECK(number(point, "tokens_per_s") ==
          Approx(tokens_of(job["training"]) / number(point, "step_time_s")));
    CHECK(number(point, "efficiency") ==
          Approx(number(point, "tokens_per_s") / number(point, "gpus") / first));
    const std::string count = " --set cluster.count=" + point["count"].dump();
    const json best = answer_of("plan " + path + count)["plans"][0];
    CHECK(number(best, "step_time_s") == Approx(number(point, "step_time_s")));
    CHECK(best["parallelism"] == point["parallelism"]);
    CHECK(number(best, "usd_per_million_tokens") ==
          Approx(number(point, "usd_per_million_tokens")));
  }
}

TEST_CASE("each level of compile is what simulate says of it", "[tools][json]") {
  const std::string path = source + "/scenarios/gpt2-xl-p3-interleaved.json";
  const json value = answer_of("compile " + path);
  double kernels = 1e18, bytes = 1e18;
  int compared = 0;
  for (const json& level : value["levels"]) {
    CAPTURE(level["compiler"]);
    // A higher level runs fewer kernels, which move less.
    CHECK(number(level, "kernels") < kernels);
    CHECK(number(level, "bytes_moved") < bytes);
    kernels = number(level, "kernels"), bytes = number(level, "bytes_moved");
    // Every level is shown with the partition of the job's own level. Simulate would choose another
    // one at another level.
    if (level["compiler"] != value["training"]["compiler"]) continue;
    ++compared;
    const json simulated = answer_of(
        "simulate " + path + " --set training.compiler=" + level["compiler"].get<std::string>());
    CHECK(number(level, "step_time_s") == Approx(number(simulated, "step_time_s")));
    CHECK(level["fits"] == simulated["fits"]);
    CHECK(level["peak_memory_bytes"] == simulated["peak_memory_bytes"]);
    const json& stages = simulated["memory"];
    const json& fullest = *std::ranges::max_element(
        stages, {}, [](const json& stage) { return stage["peak_bytes"].get<double>(); });
    for (const auto& [key, size] : level["memory"].items()) {
      CAPTURE(key);
      CHECK(size == fullest[key]);
    }
    // The largest batch fits, and the next does not.
    const json& largest = level["largest"];
    const int micro_batch = largest["micro_batch"];
    const double factor = micro_batch / number(value["training"], "micro_batch");
    CHECK(number(largest, "global_batch") ==
          Approx(factor * number(value["training"], "global_batch")));
    const auto at = [&](int size) {
      return answer_of(
          "simulate " + path + " --set training.compiler=" + level["compiler"].get<std::string>() +
          " --set training.micro_batch=" + std::to_string(size) + " --set training.global_batch=" +
          std::to_string(size * static_cast<int>(number(value["training"], "global_batch") /
                                                 number(value["training"], "micro_batch"))));
    };
    const json there = at(micro_batch), beyond = at(micro_batch + 1);
    CHECK(there["fits"] == true);
    CHECK(there["peak_memory_bytes"] == largest["peak_memory_bytes"]);
    CHECK(beyond["fits"] == false);
  }
  CHECK(compared == 1);
}

TEST_CASE("the errors of validate follow from its rows", "[tools][json]") {
  const json value =
      answer_of("validate " + source + "/scenarios/evidence/megatron_2022_recompute_a100.json");
  std::vector<double> errors;
  double sum = 0;
  int inside = 0;
  for (const json& row : value["rows"]) {
    const double measured = number(row, "measured_step_time_s");
    errors.push_back(number(row, "predicted_step_time_s") / measured - 1);
    sum += errors.back();
    inside += measured >= row["predicted_interval_s"][0].get<double>() &&
              measured <= row["predicted_interval_s"][1].get<double>();
  }
  const double rows = static_cast<double>(errors.size());
  double absolute = 0;
  for (double& error : errors) absolute += error = std::fabs(error);
  std::ranges::sort(errors);
  REQUIRE(errors.size() == 8);
  for (const json& summary : {value["overall"], value["sources"][0]}) {
    CHECK(number(summary, "rows") == rows);
    CHECK(number(summary, "mape") == Approx(absolute / rows));
    CHECK(number(summary, "bias") == Approx(sum / rows));
    CHECK(number(summary, "median_ape") == Approx((errors[3] + errors[4]) / 2));
    CHECK(number(summary, "p90_ape") >= errors[6]);
    CHECK(number(summary, "p90_ape") <= errors[7]);
    CHECK(number(summary, "inside_interval") == Approx(inside / rows));
  }
}
