#include "models/core/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace meshwright::core {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

void throw_in_file(const std::string& file, const InputError& error) {
  const Violation& violation = error.violation();
  throw InputError(violation.key.empty() ? violation : in_file(file, violation));
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const bool is_begun = word.size() >= 3 && candidate.starts_with(word);
    const std::size_t distance = is_begun ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string list_of(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " " + std::string(last) + " " : ", ";
    text += words[i];
  }
  return text;
}

void check_failed(const char* condition, const char* file, int line, std::string_view why) {
  std::fprintf(stderr, "meshwright: internal error: %s:%d: %s (%.*s)\n", file, line, condition,
               static_cast<int>(why.size()), why.data());
  std::abort();
}

}  // namespace meshwright::core
