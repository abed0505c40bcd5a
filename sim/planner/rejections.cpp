#include "sim/planner/rejections.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace meshwright {

namespace {

constexpr std::size_t most_digits = 15;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns the end of the whole number that begins at `begin`, or `begin` if none begins there.
// Digits of a word ("fp16") or of a fraction ("1.5") are not whole numbers.
std::size_t end_of_number(const std::string& text, std::size_t begin) {
  const bool continues =
      begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '.' || text[begin - 1] == '-');
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  const bool is_fraction = end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]);
  const bool ends = end == text.size() || (!is_word(text[end]) && !is_fraction);
  return !continues && ends && end - begin <= most_digits ? end : begin;
}

struct Reason {
  std::vector<std::string> words;  // around the numbers: one more than these
  std::vector<std::int64_t> numbers;
};

Reason parse(const std::string& text) {
  Reason reason{{""}, {}};
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = is_digit(text[i]) ? end_of_number(text, i) : i;
    if (end == i) {
      reason.words.back() += text[i++];
      continue;
    }
    reason.numbers.push_back(std::stoll(text.substr(i, end - i)));
    reason.words.emplace_back();
    i = end;
  }
  return reason;
}

struct Merged {
  std::vector<std::int64_t> least, largest;
  std::int64_t count = 0;
};

std::string text_of(const std::vector<std::string>& words, const Merged& merged) {
  std::string text = words.front();
  for (std::size_t i = 0; i < merged.least.size(); ++i) {
    text += std::to_string(merged.least[i]);
    if (merged.largest[i] > merged.least[i]) text += " to " + std::to_string(merged.largest[i]);
    text += words[i + 1];
  }
  return text;
}

}  // namespace

Rejections with_ranges(const Rejections& reasons) {
  std::map<std::vector<std::string>, Merged> found;
  for (const auto& [text, count] : reasons) {
    const Reason reason = parse(text);
    Merged& merged = found[reason.words];
    if (merged.count == 0) merged.least = merged.largest = reason.numbers;
    for (std::size_t i = 0; i < reason.numbers.size(); ++i) {
      merged.least[i] = std::min(merged.least[i], reason.numbers[i]);
      merged.largest[i] = std::max(merged.largest[i], reason.numbers[i]);
    }
    merged.count += count;
  }
  Rejections all;
  for (const auto& [words, merged] : found) all[text_of(words, merged)] += merged.count;
  return all;
}

}  // namespace meshwright
