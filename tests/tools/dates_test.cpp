// Tests that dates are read as people write them.
#include "tools/session/dates.h"

#include <string>
#include <utility>

#include "tests/catch.h"
#include "tests/message_of.h"
#include "tools/session/questions.h"

using namespace meshwright::tests;

namespace {

constexpr int monday = 20787;  // 2026-11-30

std::string date_of(const std::string& text) {
  const auto day = date_meant(text, monday);
  return day ? show_date(*day) : "none";
}

}  // namespace

TEST_CASE("dates are read as people write them", "[tools][dates]") {
  const std::pair<const char*, const char*> rows[] = {{"2026-12-24", "2026-12-24"},
                                                      {"2026/12/24", "2026-12-24"},
                                                      {"24.12.2026", "2026-12-24"},
                                                      {"24/12/2026", "2026-12-24"},
                                                      {"12/24/2026", "2026-12-24"},
                                                      {"20261224", "2026-12-24"},
                                                      {"24 Dec 2026", "2026-12-24"},
                                                      {"Dec 24", "2026-12-24"},
                                                      {"24th of December", "2026-12-24"},
                                                      {"December 24, 2026", "2026-12-24"},
                                                      {"Nov 30", "2027-11-30"},
                                                      {"1 March", "2027-03-01"},
                                                      {"tomorrow", "2026-12-01"},
                                                      {"Friday", "2026-12-04"},
                                                      {"fri", "2026-12-04"},
                                                      {"this Friday", "2026-12-04"},
                                                      {"monday", "2026-12-07"},
                                                      {"2 weeks", "none"},
                                                      {"1.5 days", "none"},
                                                      {"30d", "none"},
                                                      {"weekend", "none"},
                                                      {"12:30", "none"},
                                                      {"14", "none"}};
  for (const auto& [text, date] : rows) {
    CAPTURE(text);
    CHECK(date_of(text) == date);
  }
}

TEST_CASE("dates that there are not, or that could be two, are refused", "[tools][dates]") {
  const auto refusal = [](const char* text) {
    return message_of([&] { date_meant(text, monday); });
  };
  CHECK(refusal("2026-02-30") == "there is no day '2026-02-30'; write YYYY-MM-DD");
  CHECK(refusal("2026-13-01") == "there is no day '2026-13-01'; write YYYY-MM-DD");
  CHECK(refusal("12/11/2026") ==
        "'12/11/2026' could be 2026-12-11 or 2026-11-12; write one of them");
  CHECK(refusal("next friday") ==
        "'next friday' could be 2026-12-04 or 2026-12-11; write one of them");
  CHECK(refusal("24.12.26") == "'24.12.26' does not say the year; write YYYY-MM-DD");
  CHECK(refusal("2026-12") == "'2026-12' does not say the day; write YYYY-MM-DD");
  CHECK(refusal("Dec 2026") == "'Dec 2026' does not say the day; write YYYY-MM-DD");
  CHECK(refusal("2026-12-24T18:00") ==
        "'2026-12-24T18:00': a date has no time of day here; write YYYY-MM-DD");
}

TEST_CASE("the option --by says which day it means", "[tools][dates]") {
  CHECK(seconds_until("Friday", monday) == 4 * 86400);
  CHECK(deadline_note("Friday", monday) == "--by 'Friday' means 2026-12-04, 4 days from now");
  CHECK(deadline_note("2026-12-24", monday).empty());
  CHECK(deadline_note("2 weeks", monday).empty());
  CHECK(message_of([] { seconds_until("yesterday", monday); }) ==
        "--by: yesterday is not after today");
  CHECK(
      message_of([] { seconds_until("12:30", monday); })
          .ends_with("found '12:30'; a clock's time could be a length or a time of day; write 12h "
                     "30min"));
}
