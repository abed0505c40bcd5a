// Tests how numbers are shown to people, with values at both sides of each unit's limits.
#include "tests/catch.h"
#include "tools/session/step_list.h"
#include "tools/session/text.h"

using namespace meshwright::tests;

namespace {

struct Shown {
  double value;
  std::string text;
};

void check(std::string (*show)(double), const std::vector<Shown>& rows) {
  for (const auto& [value, text] : rows) {
    CAPTURE(value);
    CHECK(show(value) == text);
  }
}

constexpr double day = 24 * 3600, mebi = 1024.0 * 1024;

}  // namespace

TEST_CASE("seconds are shown in the unit that suits them", "[tools][report]") {
  check(show_seconds, {{0, "0.0 us"},
                       {0.0000123, "12.3 us"},
                       {0.000999, "999.0 us"},
                       {0.001, "1.0 ms"},
                       {0.4126, "412.6 ms"},
                       {0.9999, "999.9 ms"},
                       {1, "1.000 s"},
                       {3.21, "3.210 s"},
                       {599.5, "599.500 s"},
                       {600, "600 s"},
                       {6000.4, "6000 s"}});
}

TEST_CASE("durations are shown in the unit that suits them", "[tools][report]") {
  check(show_duration, {{0.25, "250.0 ms"},
                        {119, "119.000 s"},
                        {120, "2.0 min"},
                        {270, "4.5 min"},
                        {3599, "60.0 min"},
                        {3600, "1.0 h"},
                        {2 * day - 3600, "47.0 h"},
                        {2 * day, "2.0 days"},
                        {9.5 * day, "9.5 days"}});
}

TEST_CASE("dollars have cents below a hundred", "[tools][report]") {
  check(show_usd, {{0, "$0.00"},
                   {12.345, "$12.35"},
                   {99.99, "$99.99"},
                   {100, "$100"},
                   {1234.5, "$1234"},
                   {-7.5, "-$7.50"},
                   {-1234, "-$1234"}});
}

TEST_CASE("bytes are shown in powers of 1024", "[tools][report]") {
  check(show_bytes, {{0, "0 B"},
                     {1023, "1023 B"},
                     {1024, "1.0 KiB"},
                     {1536, "1.5 KiB"},
                     {mebi - 1024, "1023.0 KiB"},
                     {mebi, "1.0 MiB"},
                     {31.25 * 1024 * mebi, "31.2 GiB"},
                     {2 * mebi * mebi, "2.0 TiB"},
                     {4096 * mebi * mebi, "4096.0 TiB"},
                     {-2048, "-2.0 KiB"}});
}

TEST_CASE("counts are shown in powers of 1000", "[tools][report]") {
  check(show_count, {{0, "0"},
                     {5120, "5120"},
                     {999999, "999999"},
                     {1e6, "1.0 M"},
                     {124.4e6, "124.4 M"},
                     {1e9, "1.00 B"},
                     {6.738e9, "6.74 B"},
                     {1e12, "1.00 T"},
                     {2.5e12, "2.50 T"}});
}

TEST_CASE("shares are shown in percent", "[tools][report]") {
  check(show_percent, {{0, "0.0 %"}, {0.273, "27.3 %"}, {1, "100.0 %"}, {-0.051, "-5.1 %"}});
  CHECK(show_number(12.345, 1) == "12.3");
  CHECK(show_number(12.5, 0) == "12");
}

TEST_CASE("a table is as wide as its widest cells, the first column to the left",
          "[tools][report]") {
  Table table({"name", "n", "", ""});
  table.add({"a", "1024"});
  table.add({"longer", "2", "x", "last"});
  table.add({"b", "", "", ""});
  CHECK(table.text() ==
        "name       n\n"
        "a       1024\n"
        "longer     2  x  last\n"
        "b\n");
  CHECK(table.rows().size() == 4);
  CHECK(table.rows()[2][3] == "last");
}

TEST_CASE("a list of steps has single ones and ranges, both ends included", "[tools]") {
  const StepList list("--trace-steps", "3,10-12,7-7");
  std::vector<int> in;
  for (int step = 0; step < 20; ++step)
    if (list.contains(step)) in.push_back(step);
  CHECK(in == std::vector{3, 7, 10, 11, 12});
  CHECK(list.last() == 12);
  CHECK(StepList("x", "20,1-2").last() == 20);
  for (const char* wrong : {"", "0", "3,", "2-1", "a", "1-", "-3", "1x", "3-4x", "1,,2", "1-2-3"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(StepList("here", wrong), Catch::StartsWith("here: '"));
  }
}
