#include "tools/session/dates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <iterator>
#include <string_view>
#include <vector>

#include "models/core/error.h"

namespace meshwright::session {

namespace {

constexpr std::string_view months[] = {"january",   "february", "march",    "april",
                                       "may",       "june",     "july",     "august",
                                       "september", "october",  "november", "december"};
constexpr std::string_view week[] = {"sunday",   "monday", "tuesday", "wednesday",
                                     "thursday", "friday", "saturday"};

using std::chrono::sys_days;
using std::chrono::year_month_day;

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos &&
         word.size() <= 8;
}

// Returns the words and numbers of a text in lower case, without "of" and "the". Ends of ordinal
// numbers are left out: "24th" is "24".
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0)
      parts.back() += static_cast<char>(std::tolower(c));
    else if (!parts.back().empty())
      parts.emplace_back();
  }
  if (parts.back().empty()) parts.pop_back();
  for (std::string& part : parts)
    for (const std::string_view end : {"st", "nd", "rd", "th"})
      if (part.ends_with(end) && is_number(part.substr(0, part.size() - 2)))
        part.resize(part.size() - 2);
  std::erase(parts, "of");
  std::erase(parts, "the");
  return parts;
}

// Returns the number of a month, from 1, by its name or by the first letters of it, at least three.
// Returns 0 for other words.
unsigned month_of(const std::string& word) {
  for (unsigned i = 0; i < std::size(months); ++i)
    if (word.size() >= 3 && months[i].starts_with(word)) return i + 1;
  return word == "sept" ? 9 : 0;
}

int day_number(int year, unsigned month, unsigned day, const std::string& text) {
  const year_month_day date{std::chrono::year(year), std::chrono::month(month),
                            std::chrono::day(day)};
  if (!date.ok()) throw InputError(fmt::format("there is no day '{}'; write YYYY-MM-DD", text));
  return static_cast<int>(sys_days(date).time_since_epoch().count());
}

int year_of(int day) {
  return static_cast<int>(year_month_day(sys_days(std::chrono::days(day))).year());
}

// Returns the day in this year, or in the next one if it is not after today. Throws InputError if
// there is no such day.
int next_such_day(unsigned month, unsigned day, int today, const std::string& text) {
  const int date = day_number(year_of(today), month, day, text);
  return date > today ? date : day_number(year_of(today) + 1, month, day, text);
}

// Reads a date of three numbers. After a year of four digits in front come month and day. A year at
// the end follows day and month, if the text has dots or the first number exceeds 12, and otherwise
// month and day. Throws InputError if both orders are possible and mean different days, if the year
// has not four digits, or if there is no such day.
int of_numbers(const std::vector<std::string>& parts, const std::string& text) {
  const int first = std::stoi(parts[0]), second = std::stoi(parts[1]), third = std::stoi(parts[2]);
  const auto day = [&](int year, int month, int of_month) {
    return day_number(year, static_cast<unsigned>(month), static_cast<unsigned>(of_month), text);
  };
  if (parts[0].size() == 4) return day(first, second, third);
  if (parts[2].size() != 4)
    throw InputError(fmt::format("'{}' does not say the year; write YYYY-MM-DD", text));
  if (text.find('.') != std::string::npos || first > 12) return day(third, second, first);
  if (second > 12 || first == second) return day(third, first, second);
  throw InputError(fmt::format("'{}' could be {} or {}; write one of them", text,
                               show_date(day(third, first, second)),
                               show_date(day(third, second, first))));
}

std::optional<int> of_words(const std::vector<std::string>& parts, int today,
                            const std::string& text) {
  if (parts.size() == 1 && parts[0] == "tomorrow") return today + 1;
  if (parts.size() == 1 && (parts[0] == "today" || parts[0] == "tonight" || parts[0] == "now"))
    return today;
  if (parts.size() == 1 && parts[0] == "yesterday") return today - 1;
  const bool is_next = parts.size() == 2 && (parts[0] == "next" || parts[0] == "this");
  const std::string& last = parts.back();
  for (unsigned i = 0; i < std::size(week); ++i) {
    if (last.size() < 3 || !week[i].starts_with(last) || (parts.size() > 1 && !is_next)) continue;
    const std::chrono::weekday now{sys_days(std::chrono::days(today))};
    const int ahead = static_cast<int>((i + 7 - now.c_encoding()) % 7);
    const int date = today + (ahead == 0 ? 7 : ahead);
    if (is_next && parts[0] == "next")
      throw InputError(fmt::format("'{}' could be {} or {}; write one of them", text,
                                   show_date(date), show_date(date + 7)));
    return date;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> date_meant(const std::string& text, int today) {
  const std::vector<std::string> parts = parts_of(text);
  if (parts.empty()) return std::nullopt;
  if (text.find(':') != std::string::npos && parts[0].size() == 4)
    throw InputError(fmt::format("'{}': a date has no time of day here; write YYYY-MM-DD", text));
  if (text.find(':') != std::string::npos) return std::nullopt;
  if (const auto day = of_words(parts, today, text)) return day;
  const bool are_numbers = std::ranges::all_of(parts, is_number);
  if (are_numbers && parts.size() == 1 && text.size() == 8 && text.starts_with("20"))
    return day_number(std::stoi(text.substr(0, 4)),
                      static_cast<unsigned>(std::stoi(text.substr(4, 2))),
                      static_cast<unsigned>(std::stoi(text.substr(6))), text);
  if (are_numbers && parts.size() == 3) return of_numbers(parts, text);
  if (are_numbers && parts.size() == 2 && parts[0].size() == 4)
    throw InputError(fmt::format("'{}' does not say the day; write YYYY-MM-DD", text));
  // The forms below name the month: "24 Dec 2026", "Dec 24", "December 24, 2026".
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const bool month_first = month_of(parts[0]) > 0;
  const unsigned month = month_of(parts[month_first ? 0 : 1]);
  const std::string& day = parts[month_first ? 1 : 0];
  if (month == 0 || !is_number(day)) return std::nullopt;
  if (day.size() > 2)
    throw InputError(fmt::format("'{}' does not say the day; write YYYY-MM-DD", text));
  const auto of_month = static_cast<unsigned>(std::stoi(day));
  if (parts.size() == 2) return next_such_day(month, of_month, today, text);
  if (!is_number(parts[2])) return std::nullopt;
  return day_number(std::stoi(parts[2]), month, of_month, text);
}

std::string show_date(int day) {
  const year_month_day date{sys_days(std::chrono::days(day))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

}  // namespace meshwright::session
