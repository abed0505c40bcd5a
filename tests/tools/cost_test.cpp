// Tests the costs of runs that the commands print: what failures cost, prices and their age,
// reserved blocks, and the user's own price list.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

// Sets the program's current date until the end of the case.
class Today {
 public:
  explicit Today(const char* epoch) { setenv("SOURCE_DATE_EPOCH", epoch, 1); }
  ~Today() { unsetenv("SOURCE_DATE_EPOCH"); }
};

const std::string llama = "simulate " + source + "/scenarios/llama-2-70b-16-p4de-zero3.json --wide";
const std::string gpt2 = "simulate " + source + "/scenarios/gpt2-xl-p3-interleaved.json --wide";

}  // namespace

TEST_CASE("simulate plays the whole run where hosts fail and it has an end", "[tools][json]") {
  const std::string job =
      "simulate " + source +
      "/scenarios/gpt2-xl-p3-interleaved.json --wide --set failures.recovery=in_job"
      " --set failures.hardware_per_host_hour=0.01";
  CHECK(answer_of(job)["risk"].is_null());  // no length
  const std::string long_job = job + " --set objective.tokens=2e11";
  const json risk = answer_of(long_job)["risk"];
  for (const char* key : {"steps", "runs", "finishes", "every_steps", "wall_s", "usd", "idle_usd",
                          "shares", "failures", "causes", "spare_worth"})
    CHECK(risk.contains(key));
  CHECK(risk["runs"] == 10000);
  CHECK(risk["finishes"] == true);
  double shares = 0;
  for (const auto& [name, share] : risk["shares"].items()) shares += share.get<double>();
  CHECK(shares == Approx(1));
  for (const char* what : {"wall_s", "usd"}) {
    CHECK(risk[what]["p10"] < risk[what]["p50"]);
    CHECK(risk[what]["p50"] < risk[what]["p90"]);
  }
  REQUIRE(risk["causes"].size() == 4);  // nothing is preempted
  CHECK(risk["causes"][0]["cause"] == "hardware");
  CHECK(risk["spare_worth"]["spares"] == 1);
  CHECK(answer_of(long_job)["risk"] == risk);
  const std::string text = run(long_job).out;
  for (const char* words : {"risk     ", "10000 runs", "waiting for hosts", "a spare host"})
    CHECK(text.find(words) != std::string::npos);
  const Answer hopeless = run(long_job + " --set failures.hardware_per_host_hour=1000");
  CHECK(hopeless.code == 0);
  CHECK(hopeless.out.find("does not finish") != std::string::npos);
}

TEST_CASE("a price is shown with its kind, region and date, and says when it is old",
          "[tools][json]") {
  {
    const Today today("1790812800");  // 2026-10-01
    const json price = answer_of(gpt2)["price"];
    CHECK(price["kind"] == "on_demand");
    CHECK(price["region"] == "us-east-1");
    CHECK(price["usd_per_hour"] == 24.48);
    CHECK(price["as_of"] == "2026-07-20");
    CHECK(price["stale"] == false);
    const std::string text = run(gpt2).out;
    CHECK(text.find("(on demand, us-east-1, 2026-07-20)") != std::string::npos);
  }
  const Today today("1795564800");  // 2026-11-25
  CHECK(answer_of(gpt2)["price"]["stale"] == true);
  CHECK(run(gpt2).out.find("2026-07-20: older than 90 days)") != std::string::npos);
}

TEST_CASE("a kind of price that is not known is no price", "[tools][json]") {
  CHECK(answer_of(gpt2 + " --set objective.price=spot")["usd_per_hour"] == 3.0305);
  const std::string unknown = gpt2 + " --set objective.price=savings_1y";
  const json value = answer_of(unknown);
  CHECK(value["price"].is_null());
  CHECK(value["usd_per_million_tokens"].is_null());
  CHECK(run(unknown).out.find("cost ") == std::string::npos);
  const Answer refused = run(gpt2 + " --set objective.region=eu-west-1", "&1");
  CHECK(refused.code == 2);
  CHECK(refused.out.find("/objective/region: no price in 'eu-west-1' is known") !=
        std::string::npos);
}

TEST_CASE("rows of --prices go before those that are known", "[tools][json]") {
  const TestFolder folder;
  const std::string path = folder.file("mine.json");
  const json row = {{"machine", "p3.16xlarge"}, {"kind", "savings_1y"},  {"region", "us-east-1"},
                    {"usd_per_hour", 16},       {"as_of", "2026-11-01"}, {"source", "an offer"}};
  const auto give = [&](const std::vector<json>& rows) {
    std::ofstream(path) << json{{"format", 1}, {"prices", rows}};
  };
  give({row});
  const std::string priced = gpt2 + " --prices " + path;
  CHECK(answer_of(priced)["usd_per_hour"] == 24.48);
  CHECK(answer_of(priced + " --set objective.price=savings_1y")["usd_per_hour"] == 16);
  json other = row;
  other["kind"] = "on_demand";
  give({row, other});
  CHECK(answer_of(priced)["price"]["source"] == "an offer");
  other["usd_per_hour"] = "16";
  give({other});
  const Answer refused = run(priced, "&1");
  CHECK(refused.code == 2);
  CHECK(refused.out.find("mine.json: /prices/0/usd_per_hour: ") != std::string::npos);
}

TEST_CASE("a run in capacity blocks pays for whole ones, and plans keep a budget with them",
          "[tools][json]") {
  const std::string blocks = " --set objective.price=capacity_block --set objective.tokens=3e9";
  const json value = answer_of(llama + blocks);
  const json& whole = value["whole_run"];
  const int days = whole["block_days"];
  CHECK(days > 0);
  const double paid = 24.0 * days * value["usd_per_hour"].get<double>();
  CHECK(whole["usd"].get<double>() == Approx(paid));
  const double used = value["usd_per_hour"].get<double>() * whole["time_s"].get<double>() / 3600;
  CHECK(whole["idle_usd"].get<double>() == Approx(paid - used));
  CHECK(run(llama + blocks).out.find("days in capacity blocks, $") != std::string::npos);
  const auto code = [&](double budget) {
    return run("plan" + llama.substr(8) + blocks +
               " --set objective.budget_usd=" + std::to_string(budget))
        .code;
  };
  CHECK(code(paid * 1.001) == 0);
  CHECK(code(paid * 0.999) == 3);
}

TEST_CASE("objective.tokens says how many steps are exported and advised", "[tools]") {
  const auto has = [](const std::string& text, const std::string& words) {
    INFO(text << " has not: " << words);
    CHECK(text.find(words) != std::string::npos);
  };
  // A step has 64 x 4096 tokens.
  const std::string to_megatron =
      "export " + source + "/scenarios/quickstart-plan.json --for megatron-lm --json" +
      " --set cluster.machine=p4d.24xlarge --set cluster.count=1 --set training.micro_batch=1" +
      " --set training.recompute=full --set 'parallelism={\"data\": 8, \"zero_stage\": 1}'";
  const json exported = answer_of(to_megatron + " --set objective.tokens=1000000");
  has(exported["contents"].dump(), "--train-iters 4");
  CHECK(exported["warnings"].dump().find("training.steps") == std::string::npos);
  has(answer_of(to_megatron)["warnings"].dump(), "one step is written");
  // Here it has 8 x 16.
  const std::string job = "advise " + source + "/tests/tools/no_steps.json --profile " + source +
                          "/tests/tools/local.json --wide --set objective.tokens=1000";
  has(run(job).out,
      " --set training.steps=8 --write planned.json && meshwright train planned.json"
      " --profile ");
}

TEST_CASE("a machine without a price of the asked kind names the kinds that it has", "[tools]") {
  const TestFolder folder;
  const std::string prices = folder.path() + "/prices.json";
  std::ofstream(prices)
      << R"({"format": 1, "prices": [{"machine": "local", "kind": "own", "capital_usd": 1000,
      "years": 4, "power_kw": 0.5, "usd_per_kwh": 0.1, "as_of": "2026-11-02", "source": "test"}]})";
  const std::string plan = "plan " + source + "/tests/tools/tiny.json --profile " + source +
                           "/tests/tools/local.json --wide --set objective.minimize=usd --prices " +
                           prices;
  const std::string warning =
      "local has no on demand price: plans are ranked by step time, not by "
      "money; for own there is a price (objective.price)";
  CHECK(run(plan, "&1").out.find(warning) != std::string::npos);
  const Answer own = run(plan + " --set objective.price=own", "&1");
  CHECK(own.code == 0);
  CHECK(own.out.find("has no") == std::string::npos);
}
