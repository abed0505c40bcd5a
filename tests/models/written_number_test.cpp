// Numbers as people write them.
#include "models/core/written_number.h"

#include <string>

#include "models/job/job.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;

namespace {

struct Written {
  NumberKind kind;
  const char* text;
  double value;
};

}  // namespace

TEST_CASE("numbers are read as people write them", "[models][written]") {
  using enum NumberKind;
  constexpr double day = 86400;
  const Written rows[] = {{count, "64", 64},
                          {count, "1e9", 1e9},
                          {count, "60B", 60e9},
                          {count, "60b", 60e9},
                          {count, "60 billion", 60e9},
                          {count, "20M tokens", 20e6},
                          {count, "2.5T", 2.5e12},
                          {count, "1,000,000", 1e6},
                          {count, "15_000", 15000},
                          {count, "300k", 300e3},
                          {count, " 7B params ", 7e9},
                          {length, "4096", 4096},
                          {length, "8k", 8192},
                          {length, "128K", 131072},
                          {length, "128k tokens", 131072},
                          {length, "1M", 1048576},
                          {usd, "15000", 15000},
                          {usd, "$15,000", 15000},
                          {usd, "15k", 15000},
                          {usd, "$1.5k", 1500},
                          {usd, "15k USD", 15000},
                          {usd, "2 million dollars", 2e6},
                          {seconds, "90", 90},
                          {seconds, "90s", 90},
                          {seconds, "12h", 12 * 3600},
                          {seconds, "12 hours", 12 * 3600},
                          {seconds, "1.5 days", 1.5 * day},
                          {seconds, "30d", 30 * day},
                          {seconds, "2 weeks", 14 * day},
                          {seconds, "2w", 14 * day},
                          {seconds, "a month", 30 * day},
                          {seconds, "month", 30 * day},
                          {seconds, "weekend", 2 * day},
                          {seconds, "a weekend", 2 * day},
                          {seconds, "1d 12h", 1.5 * day},
                          {seconds, "1d12h", 1.5 * day},
                          {seconds, "45 min", 45 * 60},
                          {share, "0.05", 0.05},
                          {share, "5%", 0.05},
                          {share, "5 percent", 0.05}};
  for (const auto& [kind, text, value] : rows) {
    CAPTURE(text);
    const auto found = written_number(text, kind);
    REQUIRE(found);
    CHECK(*found == Approx(value));
  }
}

TEST_CASE("words that are no number are none", "[models][written]") {
  using enum NumberKind;
  for (const char* text : {"", " ", "B", "sixty", "60 B B", "60X", "1,00", "60B60", "nan", "inf",
                           "--3", "1.2.3", "$", "60 apples"}) {
    CAPTURE(text);
    CHECK_FALSE(written_number(text, count));
    CHECK_FALSE(written_number(text, usd));
    CHECK_FALSE(written_number(text, length));
  }
  for (const char* text : {"soon", "h12", "3 moons", "1d 12"})
    CHECK_FALSE(written_number(text, seconds));
}

TEST_CASE("jobs take numbers as people write them, and say what is none", "[models][written]") {
  const auto read = [](const char* tokens, const char* budget) {
    return read_job_text(std::string(R"({"model": "gpt2", "cluster": {"machine": "p4d.24xlarge"},
        "training": {"global_batch": "1k", "sequence_length": "1k", "steps": "20k"},
        "objective": {"tokens": ")") +
                             tokens + R"(", "budget_usd": ")" + budget +
                             R"(", "deadline_s": "2 weeks"}})",
                         "job.json", {"training.micro_batch=auto"}, lookup_for_tests);
  };
  const Job job = read("60B", "$15,000");
  CHECK(job.objective.tokens == 60e9);
  CHECK(job.objective.budget_usd == 15000);
  CHECK(job.objective.deadline_s == 14.0 * 86400);
  CHECK(job.plan.training.global_batch == 1000);
  CHECK(job.plan.training.sequence_length == 1024);
  CHECK(job.plan.training.steps == 20000);
  CHECK(message_of([&] { read("many", "$15,000"); }) ==
        "job.json: /objective/tokens: expected a number such as 60e9, 60B or 20M, found 'many'");
  CHECK(message_of([&] { read("60B", "cheap"); }) ==
        "job.json: /objective/budget_usd: expected dollars above 0, such as 25000, 25k or $25,000, "
        "found 'cheap'");
}
