#include "models/core/written_number.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>

namespace meshwright::core {

namespace {

struct NumberUnit {
  std::string_view word;
  double factor;
};

constexpr NumberUnit multiples[] = {{"", 1},     {"k", 1e3},   {"thousand", 1e3}, {"m", 1e6},
                                    {"mn", 1e6}, {"mio", 1e6}, {"million", 1e6},  {"b", 1e9},
                                    {"bn", 1e9}, {"g", 1e9},   {"mrd", 1e9},      {"billion", 1e9},
                                    {"t", 1e12}, {"tn", 1e12}, {"trillion", 1e12}};
constexpr NumberUnit binary_multiples[] = {
    {"", 1}, {"k", 1024}, {"ki", 1024}, {"m", 1024.0 * 1024}, {"mi", 1024.0 * 1024}};
constexpr NumberUnit times[] = {{"", 1},
                                {"s", 1},
                                {"sec", 1},
                                {"second", 1},
                                {"min", 60},
                                {"minute", 60},
                                {"h", 3600},
                                {"hr", 3600},
                                {"hour", 3600},
                                {"d", 86400},
                                {"day", 86400},
                                {"w", 7 * 86400},
                                {"wk", 7 * 86400},
                                {"week", 7 * 86400},
                                {"weekend", 2 * 86400},
                                {"month", 30 * 86400}};
constexpr NumberUnit shares[] = {{"", 1}, {"%", 0.01}, {"percent", 0.01}};

// Words after a number that say what is counted, and change nothing.
constexpr std::string_view counted[] = {"tokens", "token",     "parameters", "params", "steps",
                                        "step",   "sequences", "samples",    "usd",    "dollars"};

std::span<const NumberUnit> units_of(NumberKind quantity) {
  switch (quantity) {
    case NumberKind::length:
      return binary_multiples;
    case NumberKind::seconds:
      return times;
    case NumberKind::share:
      return shares;
    default:
      return multiples;
  }
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
}

// Returns the text in small letters without blanks at its ends, without the commas and underscores
// between groups of three digits, and without the words of `counted`.
std::string plain(std::string_view text) {
  skip_blanks(text);
  std::string small;
  for (const char c : text) small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view word : counted)
    if (small.ends_with(word) && small.size() > word.size() &&
        std::isalpha(static_cast<unsigned char>(small[small.size() - word.size() - 1])) == 0) {
      small.resize(small.size() - word.size());
      break;
    }
  std::string result;
  for (std::size_t i = 0; i < small.size(); ++i) {
    const auto digits_from = [&](std::size_t at) {
      std::size_t end = at;
      while (end < small.size() && std::isdigit(static_cast<unsigned char>(small[end])) != 0) ++end;
      return end - at;
    };
    const bool separates = (small[i] == ',' || small[i] == '_') && i > 0 &&
                           std::isdigit(static_cast<unsigned char>(small[i - 1])) != 0 &&
                           digits_from(i + 1) == 3;
    if (!separates) result += small[i];
  }
  std::string_view rest = result;
  skip_blanks(rest);
  return std::string(rest);
}

// Takes one number from the front of `text`. "a" and "an" are 1.
std::optional<double> take_number(std::string_view& text) {
  for (const std::string_view one : {"an ", "a ", "one "})
    if (text.starts_with(one)) {
      text.remove_prefix(one.size());
      return 1;
    }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Takes the unit from the front of `text`: letters or a percent sign. Plurals are units too.
std::optional<double> take_unit(std::string_view& text, std::span<const NumberUnit> units) {
  skip_blanks(text);
  std::size_t end = 0;
  while (end < text.size() &&
         (std::isalpha(static_cast<unsigned char>(text[end])) != 0 || text[end] == '%'))
    ++end;
  std::string_view word = text.substr(0, end);
  auto unit = std::ranges::find(units, word, &NumberUnit::word);
  if (unit == units.end() && word.size() > 2 && word.ends_with('s')) {
    word.remove_suffix(1);
    unit = std::ranges::find(units, word, &NumberUnit::word);
  }
  if (unit == units.end()) return std::nullopt;
  text.remove_prefix(end);
  skip_blanks(text);
  return unit->factor;
}

}  // namespace

std::optional<double> written_number(std::string_view given, NumberKind quantity) {
  const std::string small = plain(given);
  std::string_view text = small;
  if (quantity == NumberKind::usd && text.starts_with('$')) text.remove_prefix(1);
  skip_blanks(text);
  if (quantity == NumberKind::seconds)
    for (const std::string_view word : {"weekend", "week", "month", "day"})
      if (text == word)
        return times[std::ranges::find(times, word, &NumberUnit::word) - times].factor;
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const std::optional<double> number = take_number(text);
    if (!number) return std::nullopt;
    const bool has_unit = !text.empty(), is_first = sum == 0;
    const std::optional<double> factor = take_unit(text, units_of(quantity));
    if (!factor) return std::nullopt;
    sum += *number * *factor;
    // Only durations have several parts, and each of them has a unit.
    if (!text.empty() && (quantity != NumberKind::seconds || !has_unit)) return std::nullopt;
    if (!is_first && !has_unit) return std::nullopt;
  }
  return sum;
}

std::string_view expected_number(NumberKind quantity) {
  switch (quantity) {
    case NumberKind::length:
      return "a number of tokens, such as 4096 or 128k";
    case NumberKind::usd:
      return "dollars above 0, such as 25000, 25k or $25,000";
    case NumberKind::seconds:
      return "a duration such as 30d, 12h or 2 weeks";
    case NumberKind::share:
      return "a share such as 0.05 or 5%";
    default:
      return "a number such as 60e9, 60B or 20M";
  }
}

}  // namespace meshwright::core
