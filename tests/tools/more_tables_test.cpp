// Tests, as tables_test.cpp does, the tables of the commands that compare with measurements, and
// those of compile and advise.
#include <algorithm>
#include <cmath>
#include <functional>
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

std::string printed(const std::string& arguments) {
  const Answer answer = run(arguments + " --wide");
  CAPTURE(arguments, answer.out);
  REQUIRE(answer.code == 0);
  return answer.out;
}

std::string signed_percent(double share) { return shown::number("%+.1f %%", 100 * share); }

std::string bytes_of(const json& row, const char* key) {
  return shown::bytes(row.at(key).get<double>());
}

// Returns the value after a pass and how it differs from the one before, as in "1204 -34".
std::string with_change(double after, double before,
                        const std::function<std::string(double)>& show) {
  if (after == before) return show(after);
  return show(after) + (after > before ? " +" : " -") + show(std::fabs(after - before));
}

}  // namespace

TEST_CASE("validate's tables show what its JSON says", "[tools][json]") {
  // The first rows of the largest file are enough. They have the same plan on one GPU and on eight.
  const std::string files = source + "/scenarios/evidence/", pairs = "nvidia_bert_large_v100_a100";
  const TestFolder folder;
  json some = json::parse(content_of(files + pairs + ".json"));
  some["rows"].get_ref<json::array_t&>().resize(16);
  const std::string command = "validate " + folder.file(pairs + ".json", some.dump()) + " " +
                              files + "nccl_allreduce_p4de_p5.json " + files +
                              "training_compiler_hf_4_11_pytorch_1_9.json";
  const json value = answer_of(command);
  const std::string text = printed(command);
  json sources = value["sources"];
  sources.push_back(value["overall"]);
  const std::vector<shown::Column> errors = {
      column("rows", "rows", shown::whole), column("mean error", "mape", shown::percent),
      column("median", "median_ape", shown::percent), column("90 %", "p90_ape", shown::percent),
      column("bias", "bias", signed_percent)};
  const auto with_name = [&](const std::string& head, const std::string& key) {
    std::vector<shown::Column> columns = {word(head, key)};
    columns.insert(columns.end(), errors.begin(), errors.end());
    return columns;
  };
  std::vector<shown::Column> of_sources = with_name("source", "source");
  for (const auto& [head, key] : {std::pair("in interval", "inside_interval"),
                                  {"in order", "pairs_in_order"},
                                  {"regret", "regret"},
                                  {"constant MFU", "constant_mfu_mape"}})
    of_sources.push_back(column(head, key, shown::percent));
  check_table(text, sources, of_sources);
  check_table(text, value["machines"],
              {word("training steps by machine", "machine"), column("rows", "rows", shown::whole),
               column("mean error", "mape", shown::percent), column("bias", "bias", signed_percent),
               column("in interval", "inside_interval", shown::percent)});
  check_table(text, value["collectives_from_1_MiB"],
              with_name("collectives from 1 MiB", "cluster"));
  check_table(text, value["collectives_below_1_MiB"],
              with_name("collectives below 1 MiB", "cluster"));

  json fits = json::array();
  for (const json& each : value["fits"])
    if (each["largest_batches"] > 0 || each["said_not_to_fit"] > 0) fits.push_back(each);
  check_table(
      text, fits,
      {word("what fits", "source"), column("largest batches", "largest_batches", shown::whole),
       column("1.25 x said to fit", "said_to_fit_at_1.25x", shown::whole),
       column("measured steps", "measured_steps", shown::whole),
       column("said not to fit", "said_not_to_fit", shown::whole)});

  // All pairs come from one source. The efficiency of a pair is the throughput of each of several
  // GPUs relative to one GPU alone.
  REQUIRE(value["scaling"].size() > 1);
  int within = 0;
  double difference = 0;
  for (const json& pair : value["scaling"]) {
    const double off =
        pair["predicted_efficiency"].get<double>() - pair["measured_efficiency"].get<double>();
    CHECK(pair["within_3_points"] == (std::fabs(off) <= 0.03));
    CHECK(pair["gpus"] == json({1, 8}));
    within += std::fabs(off) <= 0.03;
    difference += off / static_cast<double>(value["scaling"].size());
  }
  CHECK(shown::table(text, {"scaling efficiency, 1 to 8 GPUs"}) ==
        std::vector<std::vector<std::string>>{{pairs, std::to_string(value["scaling"].size()),
                                               std::to_string(within),
                                               shown::number("%+.1f points", 100 * difference)}});
}

TEST_CASE("validate's errors of peak memory follow from its rows", "[tools][json]") {
  const std::string file = source + "/scenarios/evidence/torchtitan_h100_fp8_cp_pp.json";
  const json evidence = json::parse(content_of(file)), value = answer_of("validate " + file);
  double absolute = 0, sum = 0;
  int rows = 0;
  for (const json& row : value["rows"]) {
    const auto given = std::find_if(evidence["rows"].begin(), evidence["rows"].end(),
                                    [&](const json& each) { return each["id"] == row["id"]; });
    REQUIRE(given != evidence["rows"].end());
    CHECK(row["measured_peak_memory_bytes"] ==
          (*given)["measured"].value("peak_memory_bytes", json()));
    if (row["measured_peak_memory_bytes"].is_null()) continue;
    const double error = row["predicted_peak_memory_bytes"].get<double>() /
                             row["measured_peak_memory_bytes"].get<double>() -
                         1;
    absolute += std::fabs(error), sum += error, ++rows;
  }
  REQUIRE(rows > 1);
  REQUIRE(value["peak_memory"].size() == 1);
  CHECK(value["peak_memory"][0]["rows"] == rows);
  CHECK(value["peak_memory"][0]["mape"].get<double>() == Approx(absolute / rows));
  CHECK(value["peak_memory"][0]["bias"].get<double>() == Approx(sum / rows));
}

TEST_CASE("compile's tables show what its JSON says", "[tools][json]") {
  const std::string command = "compile " + jobs + "tiny.json" + one_rank;
  const json levels = answer_of(command)["levels"];
  const std::string text = printed(command);
  const auto memory = [](const std::string& head, const std::string& key) {
    return shown::Column{
        head, [=](const json& row) { return bytes_of(row["memory"], (key + "_bytes").c_str()); }};
  };
  check_table(text, levels,
              {word("level", "compiler"),
               column("kernels", "kernels", shown::whole),
               column("moved", "bytes_moved", shown::bytes),
               column("step", "step_time_s", shown::seconds),
               {"compiled in", {}},  // the computer's own time
               memory("activations", "activations"),
               memory("workspace", "workspace"),
               column("peak", "peak_memory_bytes", shown::bytes)});
  CHECK(shown::table(text, {"level"})[0].back() == "fits");
  std::vector<shown::Column> classes = {word("peak memory", "compiler")};
  for (const char* name :
       {"parameters", "gradients", "optimizer", "activations", "workspace", "library"})
    classes.push_back(memory(name, name));
  check_table(text, levels, classes);
  for (const json& level : levels)
    for (const auto& [key, bytes] : level["memory"].items())
      CHECK((bytes == 0 || key != "communication_bytes"));  // of one rank: no column
  const auto scientific = [](double rate) { return shown::number("%.3e", rate); };
  json largest = json::array();
  for (const json& level : levels) {
    largest.push_back(level["largest"]);
    largest.back()["name"] = level["compiler"];
  }
  check_table(text, largest,
              {word("largest batch", "name"), column("micro-batch", "micro_batch", shown::whole),
               column("global batch", "global_batch", shown::whole),
               column("peak", "peak_memory_bytes", shown::bytes),
               column("rate x k", "learning_rate_linear", scientific),
               column("rate x sqrt k", "learning_rate_square_root", scientific)});
  for (const json& level : levels) {
    const auto lines = shown::table(text, {level["compiler"].get<std::string>(), "took", "kernels",
                                           "moved", "kept", "compute"});
    std::size_t line = 0;
    for (const json& pass : level["passes"]) {
      const auto number = [&](const char* key) { return pass[key].get<double>(); };
      CAPTURE(text, pass.dump());
      const double compute = number("compute_after_s"), before = number("compute_before_s");
      const bool idle = number("kernels_saved") == 0 && number("bytes_moved_saved") == 0 &&
                        number("kept_activation_bytes_saved") == 0 && compute == before;
      if (idle) continue;
      REQUIRE(line < lines.size());
      const auto after = [&](const std::string& key,
                             const std::function<std::string(double)>& show) {
        const double now = number(key.c_str());
        return with_change(now, now + number((key + "_saved").c_str()), show);
      };
      CHECK(lines[line] == std::vector<std::string>{pass["name"], lines[line][1],
                                                    after("kernels", shown::whole),
                                                    after("bytes_moved", shown::bytes),
                                                    after("kept_activation_bytes", shown::bytes),
                                                    with_change(compute, before, shown::seconds)});
      ++line;
    }
    CHECK(line > 0);
    CHECK((line == lines.size() || lines[line][0].starts_with("no change, ")));
  }
}

TEST_CASE("fit's tables show what its JSON says, and its runs are what validate says",
          "[tools][json]") {
  const TestFolder folder;
  json job = json::parse(content_of(jobs + "two_hosts.json"));
  job["cluster"]["count"] = 1;
  job["parallelism"]["data"] = 8;
  const std::string path = folder.file("job.json", job.dump());
  const double shipped = answer_of("simulate " + path)["step_time_s"];
  const json row = {{"id", "mine"}, {"job", job}, {"measured", {{"step_time_s", 1.25 * shipped}}}};
  const std::string runs =
      folder.file("runs.json", json{{"source", {{"title", "mine"}}}, {"rows", {row}}}.dump());
  const std::string profile = folder.file("mine.json");
  const std::string command = "fit --runs " + runs + " --output " + profile;
  const json value = answer_of(command);
  const std::string text = printed(command);
  CAPTURE(text);

  const json& fitted = value["runs"][0];
  CHECK(fitted["id"] == "mine");
  CHECK(fitted["measured_step_time_s"] == row["measured"]["step_time_s"]);
  const auto validated = [&](const std::string& options) {
    return answer_of("validate " + runs + options)["rows"][0]["predicted_step_time_s"];
  };
  CHECK(fitted["before_step_time_s"] == validated(""));
  CHECK(fitted["after_step_time_s"].get<double>() ==
        Approx(validated(" --profile " + profile).get<double>()));
  const auto error = [](const char* key) {
    return [=](const json& run) {
      return shown::change(run[key].get<double>() / run["measured_step_time_s"].get<double>());
    };
  };
  check_table(text, value["runs"],
              {word("run", "id"),
               column("measured", "measured_step_time_s", shown::seconds),
               column("before", "before_step_time_s", shown::seconds),
               {"error", error("before_step_time_s")},
               column("after", "after_step_time_s", shown::seconds),
               {"error", error("after_step_time_s")}});

  // A constant that the runs change by at least a hundredth has a line. Constants that the runs
  // hardly narrow are named below.
  json moved = json::array();
  std::string unknown;
  for (const json& each : value["constants"]) {
    const double before = each["before"], after = each["after"];
    if (std::fabs(after / before - 1) >= 0.01) moved.push_back(each);
    if (each["spread_after"].get<double>() > 0.8 * each["spread_before"].get<double>())
      unknown += (unknown.empty() ? "" : ", ") + each["name"].get<std::string>();
  }
  const auto four_digits = [](double constant) { return shown::number("%.4g", constant); };
  check_table(text, moved,
              {word("constant", "name"), column("before", "before", four_digits),
               column("after", "after", four_digits),
               column("still uncertain by", "spread_after",
                      [](double share) { return shown::number("%.0f %%", 100 * share); })});
  CHECK(text.find("\nThese runs say little about: " + unknown + "\n") != std::string::npos);
  const auto interval = [&](const char* key) {
    return shown::number("%+.0f %% to ", 100 * (value[key]["low"].get<double>() - 1)) +
           shown::number("%+.0f %%", 100 * (value[key]["high"].get<double>() - 1));
  };
  CHECK(text.find("lie within " + interval("interval_after") +
                  " of the prediction; before, within " + interval("interval_before") + ".\n") !=
        std::string::npos);
}

TEST_CASE("advise's table shows what its JSON says", "[tools][json]") {
  const std::string command = "advise " + jobs +
                              "searched.json --set objective.tokens=1e9 --set "
                              "'parallelism={\"data\": \"auto\"}'";
  const json value = answer_of(command);
  const std::string text = printed(command);
  REQUIRE(value["ladders"].size() == 1);
  const json& ladder = value["ladders"][0];
  const json& rungs = ladder["rungs"];
  REQUIRE(rungs.size() == 3);  // one GPU of four, one host, two
  const auto cluster = [](const json& row) {
    const json& processes = row["processes_per_host"];
    return row["count"].dump() + " x p3.8xlarge" +
           (processes == 4 ? "" : " (" + processes.dump() + " of 4 GPUs)");
  };
  check_table(
      text, rungs,
      {column("hosts", "count", shown::whole),
       {"GPUs",
        [](const json& row) {
          return std::to_string(row["count"].get<int>() * row["processes_per_host"].get<int>());
        }},
       word("plan", "plan"),
       column("step", "step_time_s", shown::seconds),
       {"eight in ten",
        [](const json& row) {
          const json& interval = row["step_time_interval_s"];
          return shown::seconds(interval[0]) + " to " + shown::seconds(interval[1]);
        }},
       column("tokens/s", "tokens_per_s", shown::whole),
       column("MFU", "mfu", shown::percent),
       column("efficiency", "efficiency", shown::percent),
       column("memory", "peak_memory_bytes", shown::bytes),
       {"left",
        [](const json& row) {
          return shown::bytes(row["memory_limit_bytes"].get<double>() -
                              row["peak_memory_bytes"].get<double>());
        }},
       column("$/M tokens", "usd_per_million_tokens", shown::price),
       column("time", "total_time_s", shown::duration),
       column("$", "total_usd", shown::usd)});
  const auto lines = shown::table(text, {"hosts", "GPUs"});
  for (std::size_t i = 0; i < rungs.size(); ++i)
    CHECK((lines[i].back() == "<- best") == (i == ladder["stop"].get<std::size_t>()));

  // The efficiency compares tokens/s per GPU with the first rung. The second number compares
  // tokens/s per added GPU with tokens/s per GPU of the rung before.
  const auto number = [&](std::size_t i, const char* key) { return rungs[i][key].get<double>(); };
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    CAPTURE(i);
    const double each = number(i, "tokens_per_s") / number(i, "gpus");
    CHECK(number(i, "efficiency") ==
          Approx(each / (number(0, "tokens_per_s") / number(0, "gpus"))));
    if (i == 0) continue;
    const double added = (number(i, "tokens_per_s") - number(i - 1, "tokens_per_s")) /
                         (number(i, "gpus") - number(i - 1, "gpus"));
    CHECK(number(i, "added_efficiency") ==
          Approx(added / (number(i - 1, "tokens_per_s") / number(i - 1, "gpus"))));
    CHECK(number(i, "total_tokens") >= 1e9);
    CHECK(number(i, "total_time_s") - number(i, "start_s") ==
          Approx(number(i, "total_tokens") / number(i, "tokens_per_s")));
    CHECK(number(i, "total_usd") ==
          Approx(number(i, "total_time_s") / 3600 * number(i, "usd_per_hour")));
  }

  const json& best = rungs[ladder["stop"].get<std::size_t>()];
  const json& largest = best["largest"];
  const double rate = best["training"]["learning_rate"];
  const double growth =
      largest["micro_batch"].get<double>() / best["training"]["micro_batch"].get<double>();
  CHECK(largest["global_batch"].get<double>() == 32 * growth);
  CHECK(largest["learning_rate_linear"].get<double>() == Approx(rate * growth));
  CHECK(largest["learning_rate_square_root"].get<double>() == Approx(rate * std::sqrt(growth)));
  const std::string words = "\nUp to " + largest["global_batch"].dump() +
                            " sequences fit; the learning rate would then be " +
                            shown::number("%.3g", largest["learning_rate_linear"]) +
                            " (in proportion) or " +
                            shown::number("%.3g", largest["learning_rate_square_root"]) +
                            " (to the square root), after a warm-up.\n";
  CAPTURE(text);
  CHECK(text.find(words) != std::string::npos);
  CHECK(text.find("\nRent " + cluster(best) + ": " + best["plan"].get<std::string>() +
                  ", 32 sequences per step, learning rate " + shown::number("%.3g", rate) + ", " +
                  shown::duration(best["total_time_s"]) + ", " + shown::usd(best["total_usd"]) +
                  ".\n") != std::string::npos);
  const bool is_run_elsewhere = !best["frameworks"].empty();
  CHECK((text.find("\nThe plan runs in meshwright.\n") == std::string::npos) == is_run_elsewhere);
  // The useful batch has 0.2920 C^0.3271 tokens, where C is the FLOPs of the whole training.
  const double peak = 125e12 * best["gpus"].get<double>();  // of V100s
  const double flops = best["mfu"].get<double>() * peak / best["tokens_per_s"].get<double>() *
                       best["total_tokens"].get<double>();
  const double useful = 0.2920 * std::pow(flops, 0.3271) / 512;
  CHECK(value["best"]["useful_global_batch"].get<double>() == Approx(useful));
  CHECK(text.find("\nA batch of about " + shown::whole(useful) +
                  " sequences learns best from 1.00 B tokens ") != std::string::npos);
}
