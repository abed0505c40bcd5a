// Tests how numbers are read that people write.
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
                          {count, "15 000", 15000},
                          {count, "15 000 000", 15e6},
                          {count, "15'000'000", 15e6},
                          {count, "15.000.000", 15e6},
                          {count, "15\u00a0000", 15000},
                          {count, "10^12", 1e12},
                          {count, "10**9", 1e9},
                          {count, "6*10^9", 6e9},
                          {count, "6 x 10^9", 6e9},
                          {count, "2^30", 1073741824},
                          {count, "sixty billion", 60e9},
                          {count, "twenty-five million", 25e6},
                          {count, "a hundred million", 100e6},
                          {count, "half a billion", 0.5e9},
                          {count, "~60B", 60e9},
                          {count, "about 60B tokens", 60e9},
                          {count, "+60B", 60e9},
                          {count, "1 crore", 1e7},
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
                          {usd, "USD 15k", 15000},
                          {usd, "US$15k", 15000},
                          {usd, "15,000$", 15000},
                          {usd, "$15,000.00", 15000},
                          {usd, "15 000", 15000},
                          {usd, "fifteen thousand dollars", 15000},
                          {usd, "15 grand", 15000},
                          {usd, "under 15k", 15000},
                          {usd, "< $15k", 15000},
                          {usd, "0.125", 0.125},
                          {seconds, "90", 90},
                          {seconds, "two weeks", 14 * day},
                          {seconds, "in 2 weeks", 14 * day},
                          {seconds, "within two weeks", 14 * day},
                          {seconds, "a fortnight", 14 * day},
                          {seconds, "half a day", 0.5 * day},
                          {seconds, "1 week and 3 days", 10 * day},
                          {seconds, "1 day, 12 hours", 1.5 * day},
                          {seconds, "2mo", 60 * day},
                          {seconds, "1y", 365 * day},
                          {seconds, "5 ms", 0.005},
                          {bytes, "100000", 100000},
                          {bytes, "100 kB", 100e3},
                          {bytes, "25 MiB", 25 * 1024.0 * 1024},
                          {bytes, "2 GB/s", 2e9},
                          {whole, "8", 8},
                          {whole, "eight", 8},
                          {real, "1e-4", 1e-4},
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
  for (const char* text :
       {"", " ", "B", "sixtyish", "60 B B", "60GB", "60B-100B", "15k EUR", "1,5B", "60X", "1,00",
        "60B60", "nan", "inf", "--3", "1.2.3", "$", "60 apples"}) {
    CAPTURE(text);
    CHECK_FALSE(written_number(text, count));
    CHECK_FALSE(written_number(text, usd));
    CHECK_FALSE(written_number(text, length));
  }
  for (const char* text : {"soon", "h12", "3 moons", "1d 12", "3m", "12:30", "2-3 weeks"})
    CHECK_FALSE(written_number(text, seconds));
  for (const char* text : {"15.000", "€15k", "15k/month", "$30/h", "inf"})
    CHECK_FALSE(written_number(text, usd));
  for (const char* text : {"8x", "4k", "1.5.2"}) CHECK_FALSE(written_number(text, whole));
}

TEST_CASE("a wrong number is answered with what was probably meant", "[models][written]") {
  using enum NumberKind;
  const auto hint = [](const char* text, NumberKind kind) {
    const std::string message = wrong_number(text, kind);
    return message.substr(message.find("'; ") + 3);
  };
  CHECK(wrong_number("many", count) == "expected a number such as 60e9, 60B or 20M, found 'many'");
  CHECK(hint("15.000", usd) == "write 15 or 15000");
  CHECK(hint("15k EUR", usd) == "prices here are in US dollars; convert it");
  CHECK(hint("$30/h", usd) ==
        "it is what the whole job may cost, not what an hour or a month costs");
  CHECK(hint("60GB", count) == "it counts tokens, sequences or steps, not bytes");
  CHECK(hint("3 epochs", count) == "multiply the epochs by the tokens of the data");
  CHECK(hint("1,5B", count) ==
        "decimals have a point, and commas stand between groups of three digits");
  CHECK(hint("60B-100B", count) == "give one number, not a range");
  CHECK(hint("48:00:00", seconds) ==
        "a clock's time could be a length or a time of day; write 12h 30min");
  CHECK(hint("3m", seconds) == "m could be minutes or months; write min or mo");
  CHECK(hint("2026-12-24", seconds) == "a length of time, not a date; dates go with --by");
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

TEST_CASE("a batch in tokens is one of sequences, and is named", "[models][written]") {
  const auto read = [](const char* batch, int length) {
    return read_job_text(R"({"model": "llama-2-7b", "cluster": {"machine": "p4d.24xlarge"},
        "training": {"global_batch": ")" +
                             std::string(batch) + R"(", "micro_batch": 1, "sequence_length": )" +
                             std::to_string(length) + R"(}, "parallelism": {"data": 8}})",
                         "job.json", {}, lookup_for_tests);
  };
  // 4,000,000 tokens are not a whole number of sequences of 4096 tokens, but 4 x 1024 x 1024 are.
  const Job binary = read("4M tokens", 4096);
  CHECK(binary.plan.training.global_batch == 1024);
  REQUIRE(binary.notes.size() == 1);
  CHECK(binary.notes[0] == "a batch of 4M tokens is 1024 sequences of 4096 tokens");
  CHECK(read("4M tokens", 4000).plan.training.global_batch == 1000);
  CHECK(read("64 sequences", 4096).plan.training.global_batch == 64);
  CHECK(
      message_of([&] { read("4M", 4096); }) ==
      "job.json: /training/global_batch: '4M' could count tokens or sequences; write '4M tokens', "
      "or the sequences in digits");
}

TEST_CASE("degrees, lengths of time and bytes of a job may be words", "[models][written]") {
  const Job job = read_job_text(R"({"model": "gpt2", "cluster": {"machine": "p4d.24xlarge",
      "count": "two"}, "training": {"global_batch": 64, "micro_batch": "4", "sequence_length": 128,
      "learning_rate": "3e-4", "weight_decay": "10%"}, "parallelism": {"tensor": "4", "data": "4"},
      "data": {"bytes_per_sample": "100 kB", "decode_s": "5 ms", "storage_bytes_per_s": "2 GB/s"},
      "failures": {"restart_s": "10 min"}})",
                                "job.json", {}, lookup_for_tests);
  CHECK(job.cluster.counts == std::vector<int>{2});
  CHECK(job.plan.training.micro_batch == 4);
  CHECK(job.plan.training.learning_rate == 3e-4);
  CHECK(job.plan.training.weight_decay == Approx(0.1));
  CHECK(job.plan.parallelism.tensor == 4);
  CHECK(job.loading.bytes_per_sample == 100e3);
  CHECK(job.loading.decode_s == Approx(0.005));
  CHECK(job.loading.storage_bytes_per_s == 2e9);
  CHECK(job.cluster.failures->restart_s == 600);
}
