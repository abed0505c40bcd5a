// Tests that plans say which frameworks run them, and, if none runs the best plan, what it costs to
// use one that a usual framework runs.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

// This plan has four stages of two chunks each, with a schedule that no framework has.
const std::string odd_schedule =
    source + "/scenarios/llama-2-7b-4-p4d.json --set cluster.count=2 --set " +
    "parallelism.schedule=zero_bubble_v --set parallelism.virtual_stages=2";

}  // namespace

TEST_CASE("the best plan of a framework that runs none of the first is that of --for",
          "[tools][elsewhere]") {
  const json answer = answer_of("plan " + odd_schedule);
  for (const json& plan : answer["plans"]) REQUIRE(plan["frameworks"].empty());
  REQUIRE(answer["elsewhere"].size() == 3);
  for (const json& each : answer["elsewhere"]) {
    CAPTURE(each.dump());
    const std::string name = each["framework"];
    const json own = answer_of("plan " + odd_schedule + " --for " + name + " --top 1")["plans"];
    REQUIRE(each["plan"].is_null() == own.empty());
    if (own.empty()) continue;
    CHECK(each["plan"] == own[0]["plan"]);
    CHECK(each["step_time_s"] == own[0]["step_time_s"]);
    CHECK(each["slower"].get<double>() ==
          Approx(own[0]["step_time_s"].get<double>() /
                     answer["plans"][0]["step_time_s"].get<double>() -
                 1));
  }
}

TEST_CASE("tables of plans say where each runs", "[tools][elsewhere]") {
  const Answer none = run("plan " + odd_schedule + " --top 1");
  CHECK(none.out.find("meshwright") != std::string::npos);
  CHECK(none.out.find("best that megatron-lm can run: +") != std::string::npos);
  const std::string given = source + "/scenarios/llama-2-7b-4-p4d.json --set cluster.count=1";
  for (const char* command : {"plan", "scale", "advise"}) {
    const std::string out =
        run(std::string(command) + " " + given + " --for megatron-lm --wide").out;
    CAPTURE(command, out);
    CHECK(out.find("runs in") != std::string::npos);
    CHECK(out.find("megatron") != std::string::npos);
  }
}

TEST_CASE("adapters run in the frameworks that have peft", "[tools][elsewhere]") {
  const json answer = answer_of("plan " + source +
                                "/scenarios/llama-2-7b-4-p4d.json --set cluster.count=1 --set "
                                "'training.lora={\"rank\": 8, \"target_modules\": "
                                "[\"q_proj\"]}' --top 3");
  for (const char* name : {"accelerate", "deepspeed"}) {
    const auto runs = [&](const json& plan) {
      return std::ranges::find(plan["frameworks"], name) != plan["frameworks"].end();
    };
    const auto is_it = [&](const json& each) {
      return each["framework"] == name && each["plan"].is_string();
    };
    CAPTURE(name, answer["elsewhere"].dump());
    CHECK((std::ranges::any_of(answer["plans"], runs) ||
           std::ranges::any_of(answer["elsewhere"], is_it)));
  }
}

TEST_CASE("frameworks that would train something else say what they lack", "[tools][elsewhere]") {
  const json answer = answer_of("plan " + source +
                                "/scenarios/llama-2-7b-4-p4d.json --set cluster.count=1 --set "
                                "training.ema_decay=0.999 --top 3");
  REQUIRE(answer["elsewhere"].size() == 3);
  for (const json& each : answer["elsewhere"]) {
    CHECK(each["plan"].is_null());
    const std::string reason = each["reason"];
    CHECK(reason.starts_with("training.ema_decay: "));
    CHECK(reason.ends_with("without an average of the weights"));
  }
}

TEST_CASE("what to rent goes on with the settings of a framework that can run it",
          "[tools][elsewhere]") {
  const std::string rented = answer_of("advise " + source +
                                       "/scenarios/llama-2-7b-4-p4d.json --for megatron-lm --set "
                                       "cluster.count=1")["best"]["command"];
  CHECK(rented.find(" --for megatron-lm --set cluster.machine=p4d.24xlarge") != std::string::npos);
  CHECK(
      rented.ends_with(" --write planned.json && meshwright export planned.json --for "
                       "megatron-lm --to megatron-lm"));
  const std::string here =
      answer_of("advise " + jobs + "tiny.json --profile " + jobs + "local.json")["best"]["command"];
  CHECK(here.find("&& meshwright train planned.json") != std::string::npos);
}
