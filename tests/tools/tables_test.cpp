// Tests that every table which a command prints shows the numbers of its `--json`, in the right
// unit and with the right digits, and that two commands print the same number for the same thing.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"
#include "tests/tools/shown.h"

using nlohmann::json;
using shown::check_table;
using shown::column;
using shown::word;

namespace {

std::string text_of(const std::string& arguments) {
  const Answer answer = run(arguments + " --wide");
  CAPTURE(arguments, answer.out);
  REQUIRE(answer.code == 0);
  return answer.out;
}

shown::Column cluster(const std::string& head) {
  return {head, [](const json& row) {
            return row["count"].dump() + " x " + row["machine"].get<std::string>();
          }};
}

std::string picoseconds(const json& ps) { return shown::seconds(ps.get<double>() * 1e-12); }
std::string changed(const json& ps) {
  return (ps.get<double>() < 0 ? "-" : "+") + shown::seconds(std::fabs(ps.get<double>()) * 1e-12);
}

}  // namespace

TEST_CASE("scale's table shows what its JSON says", "[tools][json]") {
  const std::string command = "scale " + jobs +
                              "searched.json --set failures.hardware_per_host_hour=0.036 --set "
                              "'parallelism={\"tensor\": \"auto\", \"data\": \"auto\"}'";
  check_table(text_of(command), answer_of(command)["points"],
              {cluster("cluster"),
               column("GPUs", "gpus", shown::whole),
               {"plan", {}},
               column("step", "step_time_s", shown::seconds),
               column("tokens/s", "tokens_per_s", shown::whole),
               column("efficiency", "efficiency", shown::percent),
               column("$/M tokens", "usd_per_million_tokens", shown::price),
               column("goodput", "goodput", shown::percent)});
}

TEST_CASE("plan's table shows what its JSON says of each plan", "[tools][json]") {
  const std::string command = "plan " + jobs + "searched.json --set cluster.count=1 --top 100";
  const json plans = answer_of(command)["plans"];
  const std::string text = text_of(command);
  // The column with the number of a line has no head.
  std::vector<std::vector<std::string>> lines = shown::table(text, {"cluster", "plan", "step"});
  CAPTURE(text);
  REQUIRE(lines.size() >= plans.size());
  REQUIRE(plans.size() > 1);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const json& plan = plans[i];
    std::vector<std::string> line = {std::to_string(i + 1),
                                     "1 x p3.8xlarge",
                                     plan["plan"],
                                     shown::seconds(plan["step_time_s"]),
                                     shown::whole(plan["tokens_per_s"]),
                                     shown::percent(plan["mfu"]),
                                     shown::bytes(plan["peak_memory_bytes"]),
                                     "$" + shown::number("%.2f", plan["usd_per_hour"]),
                                     shown::price(plan["usd_per_million_tokens"])};
    const bool has_pareto = plan["pareto"] == true;
    // The column before that of the Pareto front names the frameworks that run the plan, in short
    // words (tests/tools/elsewhere_test.cpp).
    REQUIRE(lines[i].size() == line.size() + (has_pareto ? 2 : 1));
    line.push_back(lines[i][line.size()]);
    if (has_pareto) line.push_back("yes");
    CHECK(lines[i] == line);
  }
  CHECK(text.find("\n3.0 % of each GPU's memory is left free (--memory-margin)\n") !=
        std::string::npos);
}

TEST_CASE("plan's lines of what was rejected are those of its JSON", "[tools][json]") {
  const std::string command =
      "plan " + jobs + "searched.json --set cluster.count=1 --memory-margin 0.125 --top 1";
  const json value = answer_of(command);
  const std::string text = text_of(command + " --why");
  REQUIRE(!value["rejected"].empty());
  for (const json& each : value["rejected"]) {
    char line[32];
    std::snprintf(line, sizeof line, "\n  %8d  ", each["count"].get<int>());
    CAPTURE(text);
    CHECK(text.find(line + each["reason"].get<std::string>() + "\n") != std::string::npos);
  }
  CHECK(value["memory_margin"] == 0.125);
  CHECK(text.find("\n12.5 % of each GPU's memory is left free") != std::string::npos);
  CHECK(text.starts_with("searched: " + value["candidates_enumerated"].dump() + " candidates, " +
                         value["candidates_simulated"].dump() + " simulated, "));
  const std::size_t more = value["plans"].size() - 1;
  if (more > 0)
    CHECK(text.find("\n(" + std::to_string(more) + " more: --top " + std::to_string(more + 1) +
                    ")\n") != std::string::npos);
}

TEST_CASE("three causes say why plans were rejected, and --why says more", "[tools][json]") {
  const std::string command = "plan " + source + "/scenarios/llama-2-7b-4-p4d.json";
  const json value = answer_of(command);
  std::map<std::string, std::int64_t> counts;
  for (const json& each : value["rejected"])
    counts[each["cause"]] += each["count"].get<std::int64_t>();
  REQUIRE(counts.size() == 3);
  const std::string text = text_of(command);
  const auto line = [](std::int64_t count, const char* words) {
    char shown[80];
    std::snprintf(shown, sizeof shown, "\n%10lld  %s\n", static_cast<long long>(count), words);
    return std::string(shown);
  };
  CAPTURE(text);
  CHECK(text.find(line(counts["slower"], "slower than the plans found")) != std::string::npos);
  CHECK(text.find(line(counts["memory"], "need more memory than there is")) != std::string::npos);
  CHECK(text.find(line(counts["rule"], "combine what does not go together")) != std::string::npos);
  CHECK(text.find("--why  says more: " + std::to_string(value["rejected"].size()) + " reasons\n") !=
        std::string::npos);
  // The last line of the output is the answer.
  const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  CHECK(last.starts_with("best: " + value["plans"][0]["plan"].get<std::string>() + " on 4 x "));
}

TEST_CASE("share's table shows what its JSON says", "[tools][json]") {
  const std::string command = "share " + jobs + "shared.json";
  const json value = answer_of(command);
  check_table(
      text_of(command), value["jobs"],
      {word("job", "name"),
       {"hosts",
        [](const json& row) {
          const int first = row["first_host"];
          return std::to_string(first) + " to " +
                 std::to_string(first + row["count"].get<int>() - 1);
        }},
       {"plan",
        [](const json& row) { return "p1 t1 d" + row["parallelism"]["data"].dump() + " mb2"; }},
       column("step alone", "step_time_alone_s", shown::seconds),
       column("together", "step_time_s", shown::seconds),
       {"slow-down", [](const json& row) { return shown::change(row["slow_down"]); }},
       column("sends to spine", "sends_to_spine", shown::percent),
       column("share of it", "spine_share", shown::percent)});
  for (const json& job : value["jobs"]) {
    CHECK(job["count"] == 2);
    CHECK(job["step_time_s"].get<double>() > job["step_time_alone_s"].get<double>());
    CHECK(job["slow_down"].get<double>() ==
          Approx(job["step_time_s"].get<double>() / job["step_time_alone_s"].get<double>()));
  }
}

TEST_CASE("a job that shares its fabric with none is what simulate says of it", "[tools][json]") {
  const TestFolder folder;
  const json fabric = {{"leaf_ports", 8}, {"oversubscription", 16}};
  const json shared = {{"topology", fabric}, {"jobs", {{{"job", jobs + "two_hosts.json"}}}}};
  const json job = answer_of("share " + folder.file("shared.json", shared.dump()))["jobs"][0];
  const json alone = answer_of("simulate " + jobs +
                               "two_hosts.json --set 'cluster.topology=" + fabric.dump() + "'");
  CHECK(job["first_host"] == 0);
  CHECK(job["count"] == 2);
  CHECK(job["machine"] == alone["machine"]);
  CHECK(job["parallelism"] == alone["parallelism"]);
  CHECK(job["step_time_alone_s"].get<double>() == Approx(alone["step_time_s"].get<double>()));
  CHECK(job["step_time_s"] == job["step_time_alone_s"]);
  CHECK(job["slow_down"] == 1);
}

TEST_CASE("explain's table shows what its JSON says, and each side is what simulate says",
          "[tools][json]") {
  const TestFolder folder;
  json job = json::parse(content_of(jobs + "two_hosts.json"));
  job["cluster"] = {{"machine", "p3.8xlarge"}, {"count", 1}};
  job["parallelism"] = {{"data", 4}};
  const std::string a = folder.file("a.json", job.dump());
  job["training"]["global_batch"] = 16;
  job["parallelism"] = {{"data", 2}, {"pipeline", 2}};
  const std::string b = folder.file("b.json", job.dump());

  const std::string command = "explain " + a + " " + b;
  const json value = answer_of(command);
  const json &from = value["from"], &to = value["to"];
  const double before = from["step_time_ps"], after = to["step_time_ps"];
  CHECK(value["change_ps"].get<double>() == after - before);
  std::vector<std::vector<std::string>> rows;
  double listed = 0;
  for (const json& row : value["changes"]) {
    CHECK(row["change_ps"].get<double>() ==
          row["to_ps"].get<double>() - row["from_ps"].get<double>());
    listed += row["from_ps"].get<double>();
    rows.push_back({row["cause"], picoseconds(row["from_ps"]), picoseconds(row["to_ps"]),
                    changed(row["change_ps"])});
  }
  const std::string unchanged = picoseconds(before - listed);
  if (before != listed) rows.push_back({"unchanged", unchanged, unchanged});
  rows.push_back({"step", picoseconds(before), picoseconds(after), changed(after - before)});
  const std::string text = text_of(command);
  CAPTURE(text);
  CHECK(shown::table(text, {"A", "B", "change"}) == rows);

  // The sentence names the first three rows of the table.
  REQUIRE(rows.size() > 4);
  const std::string reason = "\nB is " + picoseconds(std::fabs(after - before)) +
                             (after < before ? " faster (" : " slower (") +
                             shown::percent(std::fabs(after - before) / before) +
                             "): " + rows[0][3] + " of " + rows[0][0] + ", " + rows[1][3] + " of " +
                             rows[1][0] + ", " + rows[2][3] + " of " + rows[2][0] + ".\n";
  CHECK(text.find(reason) != std::string::npos);
  CHECK(text.find("\nThe steps do not have the same number of tokens: A has " +
                  shown::whole(from["tokens_per_s"]) + " tokens/s, B " +
                  shown::whole(to["tokens_per_s"]) + " tokens/s.\n") != std::string::npos);
  CHECK(text.find("\nTimes are those of the stage that is busy longest: 0 of A, " +
                  to["stage"].dump() + " of B.\n") != std::string::npos);

  for (const auto& [file, side] : {std::pair(a, from), std::pair(b, to)}) {
    const json simulated = answer_of("simulate " + file);
    CHECK(side["step_time_ps"].get<double>() * 1e-12 ==
          Approx(simulated["step_time_s"].get<double>()));
    for (const char* key :
         {"name", "tokens_per_s", "machine", "count", "parallelism", "training", "fits"}) {
      CAPTURE(key);
      CHECK(side[key] == simulated[key]);
    }
  }
}

TEST_CASE("explain's tables of a profile show what its JSON says", "[tools][json]") {
  const std::string command = "explain " + jobs +
                              "searched.json --set cluster.count=1 --set "
                              "cluster.machine=p3.16xlarge --set parallelism.data=8 --set "
                              "training.micro_batch=4 --measured " +
                              source + "/tests/sim/profiles/two_steps.json";
  const json value = answer_of(command);
  const std::string text = text_of(command);
  CAPTURE(text);
  std::map<std::string, std::array<std::array<json, 2>, 2>> kinds;
  const char* sides[] = {"from", "to"};
  for (int side = 0; side < 2; ++side)
    for (const json& each : value[sides[side]]["communication"])
      kinds[each["kind"]][side] = {each["time_ps"], each["exposed_ps"]};
  const auto lines =
      shown::table(text, {"communication", "predicted", "exposed", "measured", "exposed"});
  REQUIRE(lines.size() >= kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    auto& [predicted, measured] = kinds.at(lines[i][0]);
    const auto ps = [](const json& time) { return picoseconds(time.is_null() ? json(0) : time); };
    CHECK(lines[i] == std::vector<std::string>{lines[i][0], ps(predicted[0]), ps(predicted[1]),
                                               ps(measured[0]), ps(measured[1])});
  }
  for (const json& each : value["changes"]) {
    const std::string cause = each["cause"];
    const auto rows = shown::table(text, {"predicted", "measured", "change"});
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& cells) { return cells[0] == cause; });
    REQUIRE(row != rows.end());
    CHECK(*row == std::vector<std::string>{cause, picoseconds(each["from_ps"]),
                                           picoseconds(each["to_ps"]), changed(each["change_ps"])});
  }
  // Tokens per second times the time of a step must be the tokens of a step.
  CHECK(value["to"]["tokens_per_s"].get<double>() * value["to"]["step_time_ps"].get<double>() ==
        Approx(32 * 512 * 1e12));
}

TEST_CASE("sensitivity's table shows what its JSON says", "[tools][json]") {
  const auto check = [](const std::string& command, const std::string& answer,
                        const std::function<std::string(double)>& show) {
    const json value = answer_of(command);
    const std::string text = text_of(command);
    CHECK(value["answer"] == answer);
    const double base = value[answer];
    std::vector<shown::Column> columns = {
        word("input", "input"),
        {"low", [](const json& row) { return row["low"]["value"].get<std::string>(); }},
        {"high", [](const json& row) { return row["high"]["value"].get<std::string>(); }}};
    for (const std::string end : {"low", "high"}) {
      columns.push_back({"answer at " + end, [=](const json& row) {
                           const json& at = row[end][answer];
                           return at.is_null() ? "-" : show(at);
                         }});
      columns.push_back({"at " + end, [=](const json& row) {
                           const json& at = row[end][answer];
                           return at.is_null() ? "not legal"
                                               : shown::change(at.get<double>() / base);
                         }});
    }
    check_table(text, value["inputs"], columns);
    // The lengths of bars are in proportion, and the longest has 16 cells.
    const auto at = [&](const json& input, const char* end) {
      const json& number = input[end][answer];
      return number.is_null() ? base : number.get<double>();
    };
    double reach = 0;
    for (const json& input : value["inputs"])
      for (const char* end : {"low", "high"})
        reach = std::max(reach, std::fabs(at(input, end) - base));
    for (const json& input : value["inputs"]) {
      const std::string rest =
          text.substr(text.find("\n" + input["input"].get<std::string>() + "  ") + 1);
      const std::string bar = rest.substr(0, rest.find('\n'));
      const double less = base - std::min({base, at(input, "low"), at(input, "high")});
      const double more = std::max({base, at(input, "low"), at(input, "high")}) - base;
      CHECK(std::ranges::count(bar, '<') == std::lround(16 * less / reach));
      CHECK(std::ranges::count(bar, '>') == std::lround(16 * more / reach));
    }
    return text;
  };
  const std::string job = "sensitivity " + jobs + "two_hosts.json";
  const std::string length = " --set training.steps=100000";
  CHECK(check(job + length, "time_s", shown::duration).find("\nThe whole job: 1.64 B tokens, ") !=
        std::string::npos);  // 100,000 steps of 32 x 512
  check(job + length + " --set objective.minimize=usd", "usd", shown::usd);
  CHECK(check(job, "time_s", shown::duration)
            .find("\nOne step (the job does not say how many): 16384 tokens, ") !=
        std::string::npos);
}
