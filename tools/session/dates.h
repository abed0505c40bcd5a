// Reads dates as people write them: 2026-12-24, 24.12.2026, 24 Dec 2026, Friday, tomorrow.
#pragma once

#include <optional>
#include <string>

namespace meshwright::session {

// Returns the day that a text names, in days since 1970-01-01, or nothing if it is no date. A day
// without a year, and a day of the week, is the next one after `today`. Throws InputError, without
// the option's name, for dates that do not exist, that people read in two ways, that have a time of
// day, or that lack the day.
std::optional<int> date_meant(const std::string& text, int today);

// Returns the day as "2026-12-24".
std::string show_date(int day);

}  // namespace meshwright::session
