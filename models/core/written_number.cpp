#include "models/core/written_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

namespace meshwright::core {

namespace {

struct NumberUnit {
  std::string_view word;
  double factor;
};

constexpr NumberUnit multiples[] = {
    {"", 1},       {"k", 1e3},     {"thousand", 1e3}, {"grand", 1e3}, {"m", 1e6},
    {"mn", 1e6},   {"mio", 1e6},   {"mln", 1e6},      {"mil", 1e6},   {"million", 1e6},
    {"b", 1e9},    {"bn", 1e9},    {"bln", 1e9},      {"g", 1e9},     {"mrd", 1e9},
    {"bil", 1e9},  {"t", 1e12},    {"tn", 1e12},      {"trn", 1e12},  {"trillion", 1e12},
    {"lakh", 1e5}, {"crore", 1e7}, {"billion", 1e9}};
constexpr NumberUnit binary_multiples[] = {
    {"", 1}, {"k", 1024}, {"ki", 1024}, {"m", 1024.0 * 1024}, {"mi", 1024.0 * 1024}};
constexpr NumberUnit times[] = {{"", 1},
                                {"ms", 1e-3},
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
                                {"fortnight", 14 * 86400},
                                {"weekend", 2 * 86400},
                                {"mo", 30 * 86400},
                                {"month", 30 * 86400},
                                {"y", 365 * 86400},
                                {"yr", 365 * 86400},
                                {"year", 365 * 86400}};
constexpr NumberUnit shares[] = {{"", 1}, {"%", 0.01}, {"percent", 0.01}};
constexpr double kibi = 1024;
constexpr NumberUnit byte_units[] = {{"", 1},
                                     {"b", 1},
                                     {"byte", 1},
                                     {"kb", 1e3},
                                     {"mb", 1e6},
                                     {"gb", 1e9},
                                     {"tb", 1e12},
                                     {"kib", kibi},
                                     {"mib", kibi* kibi},
                                     {"gib", kibi* kibi* kibi},
                                     {"tib", kibi* kibi* kibi* kibi}};

// Words after a number that say what is counted. They do not change its value.
constexpr std::string_view counted[] = {"tokens", "token",     "parameters", "params", "steps",
                                        "step",   "sequences", "samples",    "hosts",  "nodes"};

// Words before a number that do not change its value.
constexpr std::string_view before[] = {"about ",   "around ",    "approximately ",
                                       "approx. ", "roughly ",   "under ",
                                       "below ",   "less than ", "up to ",
                                       "at most ", "max ",       "within ",
                                       "in ",      "~",          "≈",
                                       "<=",       "≤",          "<",
                                       "+"};

constexpr std::string_view dollars_before[] = {"us$", "usd", "$"};
constexpr std::string_view dollars_after[] = {"us dollars", "dollars", "dollar", "bucks",
                                              "usd",        "us$",     "$"};

constexpr std::string_view small_numbers[] = {
    "one",     "two",     "three",     "four",     "five",    "six",      "seven",
    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::string_view tens[] = {"twenty", "thirty",  "forty",  "fifty",
                                     "sixty",  "seventy", "eighty", "ninety"};

std::span<const NumberUnit> units_of(NumberKind quantity) {
  switch (quantity) {
    case NumberKind::length:
      return binary_multiples;
    case NumberKind::seconds:
      return times;
    case NumberKind::share:
      return shares;
    case NumberKind::bytes:
      return byte_units;
    case NumberKind::whole:
    case NumberKind::real:
      return std::span(multiples).first(1);
    default:
      return multiples;
  }
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

void skip_blanks(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Returns how many digits follow one another from `at` on.
std::size_t digits_from(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

// Returns whether the character at `at` is between a group of one to three digits and a group of
// exactly three.
bool separates(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  return begin < at && at - begin <= 3 && digits_from(text, at + 1) == 3;
}

// Returns the text without the signs between groups of three digits: 15,000, 15 000, 15'000 and
// 15_000. Dots separate groups if there are several: 15.000.000.
std::string without_groups(const std::string& text) {
  std::size_t dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '.') dots += separates(text, i) ? 1 : 100;
  constexpr std::string_view signs = ", _'";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_sign =
        signs.find(text[i]) != std::string_view::npos || (text[i] == '.' && dots > 1 && dots < 100);
    if (!is_sign || !separates(text, i)) result += text[i];
  }
  return result;
}

// Returns the text in lower case, without blanks at its ends. Tabs, line feeds and other kinds of
// blanks become spaces, and a typographic apostrophe becomes an ASCII one.
std::string small_letters(std::string_view given) {
  std::string text(given);
  for (const char* blank : {"\u00a0", "\u2009", "\u202f", "\t", "\n"})
    replace_all(text, blank, " ");
  replace_all(text, "\u2019", "'");
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view rest = text;
  skip_blanks(rest);
  return std::string(rest);
}

// Removes the first of the words with which `text` begins, if more text follows it.
template <std::size_t n>
void remove_front(std::string_view& text, const std::string_view (&words)[n]) {
  for (const std::string_view word : words)
    if (text.starts_with(word) && text.size() > word.size()) {
      text.remove_prefix(word.size());
      skip_blanks(text);
      return;
    }
}

// Removes the first of the words with which `text` ends, if other text precedes it. A word that
// begins with a letter is not removed directly after a letter, because it is then only the end of
// another word.
template <std::size_t n>
void remove_back(std::string_view& text, const std::string_view (&words)[n]) {
  for (const std::string_view word : words)
    if (text.ends_with(word) && text.size() > word.size() &&
        !(is_letter(word.front()) && is_letter(text[text.size() - word.size() - 1]))) {
      text.remove_suffix(word.size());
      skip_blanks(text);
      return;
    }
}

// Returns the text in lower case without parts that do not change the number: words such as "under"
// before it, the currency, the thing that is counted, and signs between groups of digits.
std::string plain(std::string_view given, NumberKind quantity) {
  std::string text = small_letters(given);
  std::string_view rest = text;
  remove_front(rest, before);
  if (quantity == NumberKind::usd) {
    remove_front(rest, dollars_before);
    remove_back(rest, dollars_after);
  }
  if (quantity != NumberKind::seconds) remove_back(rest, counted);
  constexpr std::string_view per_second[] = {"/s", "/sec", "per second"};
  if (quantity == NumberKind::bytes) remove_back(rest, per_second);
  text = without_groups(std::string(rest));
  if (quantity == NumberKind::seconds) {
    replace_all(text, ", ", " ");
    replace_all(text, " and ", " ");
  }
  return text;
}

// Removes `word` from the front of `text` if a blank, a hyphen or the end follows it. Also removes
// the blanks or the hyphen. Returns whether it removed anything.
bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  if (text.size() > word.size() && text[word.size()] != ' ' && text[word.size()] != '-')
    return false;
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  skip_blanks(text);
  return true;
}

// Removes a number in words from the front of `text` and returns it: "a", "two", "twenty-five",
// "half a", "a hundred". Returns nothing if there is none.
std::optional<double> take_number_word(std::string_view& text) {
  double value = 0;
  if (take_word(text, "half")) {
    if (!take_word(text, "an")) take_word(text, "a");
    return 0.5;
  }
  for (std::size_t i = 0; i < std::size(tens) && value == 0; ++i)
    if (take_word(text, tens[i])) value = 20 + 10 * static_cast<double>(i);
  for (std::size_t i = 0; i < std::size(small_numbers); ++i)
    if ((value == 0 || i < 9) && take_word(text, small_numbers[i])) {
      value += static_cast<double>(i + 1);
      break;
    }
  if (value == 0 && (take_word(text, "an") || take_word(text, "a")))
    value = take_word(text, "couple of") ? 2 : 1;
  if (value == 0) return std::nullopt;
  if (take_word(text, "hundred")) value *= 100;
  return value;
}

std::optional<double> take_digits(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Returns the power of `base` if `text` begins with an exponent, "^9" or "**9", which it then
// removes. Returns `base` otherwise.
double powered(double base, std::string_view& text) {
  std::string_view rest = text;
  if (rest.starts_with("**"))
    rest.remove_prefix(2);
  else if (rest.starts_with('^'))
    rest.remove_prefix(1);
  else
    return base;
  const std::optional<double> exponent = take_digits(rest);
  if (!exponent) return base;
  text = rest;
  return std::pow(base, *exponent);
}

// Removes one number from the front of `text` and returns it: digits, a power, "6*10^9", or words.
std::optional<double> take_number(std::string_view& text) {
  std::optional<double> value = take_digits(text);
  if (!value) return take_number_word(text);
  value = powered(*value, text);
  std::string_view rest = text;
  skip_blanks(rest);
  for (const std::string_view sign : {"*", "x", "×", "·"})
    if (rest.starts_with(sign)) {
      rest.remove_prefix(sign.size());
      skip_blanks(rest);
      const std::string_view before_power = rest;
      const std::optional<double> base = take_digits(rest);
      if (!base || rest == before_power) return value;
      const double factor = powered(*base, rest);
      if (factor == *base) return value;  // only a power may follow, so "2 x 8" is no number
      text = rest;
      return *value * factor;
    }
  return value;
}

// Removes the unit from the front of `text` and returns its factor. A unit is a run of letters or
// percent signs, also a plural. Without a unit the factor is 1, and nothing is returned for an
// unknown one.
std::optional<double> take_unit(std::string_view& text, std::span<const NumberUnit> units) {
  skip_blanks(text);
  std::size_t end = 0;
  while (end < text.size() && (is_letter(text[end]) || text[end] == '%')) ++end;
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

// Returns whether the text is one to three digits, the first of them not 0, a dot, and three more
// digits. 15.000 is 15 to some people, and 15 thousand to others.
bool has_doubtful_dot(std::string_view text) {
  const std::size_t dot = text.find('.');
  return dot != std::string_view::npos && dot > 0 && text[0] != '0' &&
         digits_from(text, 0) == dot && dot <= 3 && text.size() == dot + 4 &&
         digits_from(text, dot + 1) == 3;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// Returns advice on how to write what a person probably meant, or "" if nothing is recognized.
std::string hint(std::string_view given, NumberKind quantity) {
  const std::string text = small_letters(given);
  const bool is_whole = quantity == NumberKind::count || quantity == NumberKind::usd;
  if (is_whole && has_doubtful_dot(plain(given, quantity))) {
    const std::string number = plain(given, quantity);
    const std::size_t dot = number.find('.');
    return fmt::format("write {} or {}{}", number.substr(0, dot), number.substr(0, dot),
                       number.substr(dot + 1));
  }
  if (quantity == NumberKind::usd &&
      has_any(text, {"€", "eur", "£", "gbp", "¥", "yen", "chf", "inr", "₹", "yuan", "rmb", "cny"}))
    return "prices here are in US dollars; convert it";
  if (quantity == NumberKind::usd && has_any(text, {"/", " per ", " a month", " an hour"}))
    return "it is what the whole job may cost, not what an hour or a month costs";
  if (quantity == NumberKind::count && has_any(text, {"gb", "gib", "tb", "tib", "mb", "byte"}))
    return "it counts tokens, sequences or steps, not bytes";
  if (quantity == NumberKind::count && has_any(text, {"epoch"}))
    return "multiply the epochs by the tokens of the data";
  if (quantity == NumberKind::seconds &&
      text.find_first_not_of("0123456789:.") == std::string::npos &&
      text.find(':') != std::string::npos)
    return "a clock's time could be a length or a time of day; write 12h 30min";
  if (quantity == NumberKind::seconds && text.ends_with('m') && is_digit(text.front()))
    return "m could be minutes or months; write min or mo";
  if (quantity == NumberKind::seconds && text.size() >= 8 && digits_from(text, 0) == 4)
    return "a length of time, not a date; dates go with --by";
  if (quantity == NumberKind::seconds && text.starts_with('p') && text.size() > 2 &&
      is_digit(text[1]))
    return "write 2d 3h for P2DT3H";
  if (quantity == NumberKind::whole && has_any(text, {"all", "max", "any", "best"}))
    return "write \"auto\" where the planner is to choose";
  // One number between other letters is probably meant: 3 in "ZeRO-3".
  const std::size_t first = text.find_first_of("0123456789");
  if (quantity == NumberKind::whole && first != std::string::npos) {
    const std::size_t count = digits_from(text, first);
    if (text.find_first_of("0123456789", first + count) == std::string::npos)
      return "write " + text.substr(first, count);
  }
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos && comma > 0 && is_digit(text[comma - 1]) &&
      digits_from(text, comma + 1) > 0)
    return "decimals have a point, and commas stand between groups of three digits";
  const std::size_t dash = text.find('-');
  if (dash != std::string::npos && dash > 0 && digits_from(text, 0) > 0)
    return "give one number, not a range";
  return "";
}

}  // namespace

std::optional<double> written_number(std::string_view given, NumberKind quantity) {
  const std::string small = plain(given, quantity);
  std::string_view text = small;
  if (quantity == NumberKind::seconds)
    for (const std::string_view word : {"weekend", "week", "fortnight", "month", "day", "year"})
      if (text == word)
        return times[std::ranges::find(times, word, &NumberUnit::word) - times].factor;
  const bool is_whole = quantity == NumberKind::count || quantity == NumberKind::usd;
  if (text.empty() || (is_whole && has_doubtful_dot(text))) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const std::optional<double> number = take_number(text);
    if (!number) return std::nullopt;
    skip_blanks(text);
    const bool is_first = sum == 0;
    const bool has_unit = !text.empty() && (is_letter(text.front()) || text.front() == '%');
    const std::optional<double> factor = take_unit(text, units_of(quantity));
    if (!factor) return std::nullopt;
    sum += *number * *factor;
    // Only durations have several parts, and each of them has a unit.
    if (!text.empty() && (quantity != NumberKind::seconds || !has_unit)) return std::nullopt;
    if (!is_first && !has_unit) return std::nullopt;
  }
  return std::isfinite(sum) ? std::optional(sum) : std::nullopt;
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
    case NumberKind::bytes:
      return "bytes such as 100000, 100 kB or 25 MiB";
    case NumberKind::whole:
      return "a whole number such as 8";
    case NumberKind::real:
      return "a number such as 0.1 or 1e-4";
    default:
      return "a number such as 60e9, 60B or 20M";
  }
}

std::string wrong_number(std::string_view text, NumberKind quantity) {
  const std::string more = hint(text, quantity);
  return fmt::format("expected {}, found '{}'{}{}", expected_number(quantity), text,
                     more.empty() ? "" : "; ", more);
}

}  // namespace meshwright::core
