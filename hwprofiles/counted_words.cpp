#include "hwprofiles/counted_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "models/core/error.h"
#include "models/core/written_number.h"

namespace meshwright::hwprofiles {

namespace {

constexpr int most_counted = 999'999;

constexpr std::array<std::string_view, 14> fillers = {"of",     "with",  "nvidia",    "gpu", "gpus",
                                                      "card",   "cards", "each",      "the", "aws",
                                                      "amazon", "ec2",   "sagemaker", "per"};
constexpr std::array<std::string_view, 10> host_words = {
    "node",     "nodes",    "host",      "hosts",  "machine",
    "machines", "instance", "instances", "server", "servers"};
constexpr std::array<std::string_view, 16> clouds = {
    "gcp",       "gce",    "google", "azure",  "microsoft", "oracle",   "oci",        "lambda",
    "coreweave", "runpod", "vast",   "nebius", "crusoe",    "together", "paperspace", "alibaba"};

template <std::size_t n>
bool is_one_of(const std::string& word, const std::array<std::string_view, n>& words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string small(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Returns the words between blanks. A number in parentheses is a count, as in "p5 (4)". Other
// parentheses count as blanks, as in "A100 (80GB)".
std::vector<std::string> split(std::string text) {
  replace_all(text, "×", " x ");
  for (std::size_t open; (open = text.find('(')) != std::string::npos;) {
    const std::size_t close = std::min(text.find(')', open), text.size());
    const std::string inside = text.substr(open + 1, close - open - 1);
    const bool is_count = !inside.empty() && std::ranges::all_of(inside, is_digit);
    text.replace(open, close - open + 1, (is_count ? " x " : " ") + inside + " ");
  }
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_sign(const std::string& word) { return word == "x" || word == "X" || word == "*"; }

// Returns whether the word looks like a number. It may still be one that counts nothing, such as
// 1.5.
bool is_number(const std::string& word) {
  const std::size_t first = word.find_first_not_of("+-");
  return first < word.size() && first <= 1 && is_digit(word[first]) &&
         word.find_first_not_of("0123456789.,'_kK", first) == std::string::npos;
}

// Adds the word to `words`. Splits it if a number and a sign are joined to it: "8xH100", "H100x8",
// "H100:8".
void add_split(std::vector<std::string>& words, const std::string& word,
               const std::function<bool(const std::string&)>& is_name) {
  const std::size_t sign = word.find_first_of("xX*");
  const bool is_size = sign != std::string::npos && word.substr(sign).starts_with("xlarge");
  if (sign != std::string::npos && sign > 0 && !is_size && is_number(word.substr(0, sign))) {
    words.insert(words.end(), {word.substr(0, sign), "x"});
    if (sign + 1 < word.size()) add_split(words, word.substr(sign + 1), is_name);
    return;
  }
  const std::size_t last = word.find_last_not_of("0123456789");
  const bool is_counted = last != std::string::npos && last > 0 && last + 1 < word.size() &&
                          std::string_view("xX*:").find(word[last]) != std::string_view::npos;
  const std::string brand = small(word.substr(0, std::min<std::size_t>(last, word.size())));
  if (is_counted && brand != "rt" && brand != "gt" && !is_name(word)) {  // RTX4090 stays whole
    add_split(words, word.substr(0, last), is_name);
    words.insert(words.end(), {"x", word.substr(last + 1)});
    return;
  }
  if ((word.front() == 'x' || word.front() == 'X' || word.front() == '*') && word.size() > 1 &&
      std::all_of(word.begin() + 1, word.end(), is_digit)) {  // "x4"
    words.insert(words.end(), {"x", word.substr(1)});
    return;
  }
  words.push_back(word);
}

// Returns the number of hosts or GPUs that `word` says. Throws InputError if it is not a whole
// number from 1 to 999,999.
int count_of(const std::string& word, const std::string& words) {
  const std::optional<double> value = written_number(word, NumberKind::count);
  if (value && *value >= 1 && *value <= most_counted && *value == static_cast<int>(*value))
    return static_cast<int>(*value);
  throw InputError(fmt::format("'{}' counts {}; use a whole number from 1 to {}, such as 8xH100",
                               words, word, most_counted));
}

// Returns the value of a word such as "four", or nothing.
std::optional<int> number_word(const std::string& word) {
  if (word.size() < 3 || is_digit(word.front()) || word.find('.') != std::string::npos)
    return std::nullopt;
  const std::optional<double> value = written_number(word, NumberKind::whole);
  return value && *value >= 1 ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// Removes the name of a cloud from the front, and returns it. Returns "" if there is none, or if
// the cloud is AWS.
std::string take_cloud(std::vector<std::string>& words) {
  if (words.empty()) return "";
  const std::size_t end = words.front().find_first_of(":/");
  const std::string first = small(words.front().substr(0, end));
  const bool is_filler = first == "aws" || first == "ec2";
  if (!is_one_of(first, clouds) && !(is_filler && end != std::string::npos)) return "";
  if (end == std::string::npos)
    words.erase(words.begin());
  else
    words.front().erase(0, end + 1);
  if (!words.empty() && (small(words.front()) == "cloud" || words.front().empty()))
    words.erase(words.begin());
  return is_filler ? "" : first;
}

}  // namespace

CountedWords counted_words(const std::string& text,
                           const std::function<bool(const std::string&)>& is_name) {
  CountedWords result;
  std::vector<std::string> given = split(text), words;
  result.cloud = take_cloud(given);
  for (const std::string& word : given) add_split(words, word, is_name);
  std::vector<int> numbers;
  std::vector<std::string> name;
  bool counts_hosts = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = small(words[i]);
    const bool is_last = i + 1 == words.size();
    const std::string next = is_last ? "" : small(words[i + 1]);
    if (is_sign(words[i])) continue;
    if (is_one_of(word, host_words)) {
      counts_hosts = true;
      continue;
    }
    if (is_one_of(word, fillers) && words.size() > 1) continue;
    // A number after words of the name belongs to the name, as in "DGX 2" and "A100 80 GB". It is a
    // count if a sign precedes it or a unit of GPUs or hosts follows: "H100 x 8", "H100 16 GPUs".
    const bool follows_sign = i > 0 && is_sign(words[i - 1]);
    const bool is_counted = name.empty() || follows_sign || is_one_of(next, host_words) ||
                            next == "gpus" || next == "cards";
    const bool has_more = !is_last || !name.empty() || !numbers.empty();
    if (is_number(words[i]) && is_counted && has_more && next != "gb" && next != "g") {
      // "2x3090" names a GPU by digits alone.
      const bool is_digits_name = is_last && name.empty() && words[i].size() == 4;
      if (!is_digits_name) {
        numbers.push_back(count_of(words[i], text));
        continue;
      }
    }
    if (const auto number = number_word(word); number && is_counted && has_more) {
      numbers.push_back(*number);
      continue;
    }
    name.push_back(words[i].starts_with("ml.") ? words[i].substr(3) : words[i]);
  }
  for (const std::string& word : name) result.name += (result.name.empty() ? "" : " ") + word;
  if (numbers.size() > 2)
    throw InputError(
        fmt::format("'{}' has {} numbers; write hosts and GPUs of each, such as 2 x 8 x H100", text,
                    numbers.size()));
  if (numbers.size() == 2) {
    // "8xH100 x 2" gives the hosts last. Other words give them first.
    const bool hosts_first = !words.empty() && !(is_number(words.front()) && !counts_hosts &&
                                                 is_number(words.back()) && !name.empty());
    result.hosts = hosts_first ? numbers[0] : numbers[1];
    result.number = hosts_first ? numbers[1] : numbers[0];
  } else if (numbers.size() == 1) {
    (counts_hosts ? result.hosts : result.number) = numbers[0];
  }
  return result;
}

}  // namespace meshwright::hwprofiles
