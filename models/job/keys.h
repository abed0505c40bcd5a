// The keys of the job file's sections, a row each. A key is read (read_keys), written (write_keys)
// and documented (key_table, for docs/job-file.md) from its row alone. What a value means beside
// others is a rule of verify(plan, model), or of the section's reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/job/job.h"

namespace meshwright {

// The numbers that a key takes. Those of a plan are checked by verify(plan, model), which says more
// about some of them; `by_reader`: while the key is read.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false, below_high = false;  // the end itself is not taken
  bool by_reader = false;
};
constexpr Range any = {};  // and of what is no number
constexpr Range at_least_zero = {.low = 0};
constexpr Range at_least_one = {.low = 1};
constexpr Range above_zero = {.low = 0, .above_low = true};
constexpr Range above_one = {.low = 1, .above_low = true};
constexpr Range zero_to_one = {.low = 0, .high = 1};
constexpr Range zero_to_below_one = {.low = 0, .high = 1, .below_high = true};

constexpr Range by_reader(Range range) {
  range.by_reader = true;
  return range;
}

// One of several words, kept as an enumerator, a flag or a string.
struct Choice {
  std::string_view what;  // "unknown <what> 'foo'; known: ..."
  std::vector<std::string> words;
  std::function<std::size_t()> chosen;
  std::function<void(std::size_t)> choose;
};

// Words in the order of the enumerators; of a flag: false, true.
template <class Enum>
Choice choice(std::string_view what, std::vector<std::string> words, Enum& place) {
  return {what, std::move(words), [&place] { return static_cast<std::size_t>(place); },
          [&place](std::size_t index) { place = static_cast<Enum>(index); }};
}

// Words that stand for these values.
template <class T>
Choice choice(std::string_view what, std::vector<std::string> words, std::vector<T> values,
              T& place) {
  return {what, std::move(words),
          [values, &place] {
            return static_cast<std::size_t>(std::find(values.begin(), values.end(), place) -
                                            values.begin());
          },
          [values, &place](std::size_t index) { place = values.at(index); }};
}

// A file or folder, in the job file relative to its own folder.
struct Path {
  std::string* place;
};
struct Paths {
  std::vector<std::string>* place;
};

// A key that needs code of its own.
struct Code {
  std::string type;                         // for the documentation; "{}" in it are the words
  std::vector<std::string> words;           // some of what it takes
  std::function<void(Fields&, Job&)> read;  // where the key is given and is not "auto"
  std::function<nlohmann::json()> write;    // null: nothing is written
};
inline Code code(std::string type, std::vector<std::string> words,
                 std::function<void(Fields&, Job&)> read, std::function<nlohmann::json()> write) {
  return {std::move(type), std::move(words), std::move(read), std::move(write)};
}

// How a key is given and written.
enum class How : std::uint8_t {
  plain,
  required,
  may_be_auto,      // the planner decides
  auto_if_asked,    // the same, where the key itself is "auto", not the whole section
  auto_if_missing,  // the same, or the machine, where the key is left out too
  if_set            // written only where it is not 0, false or empty, which stand for "not given"
};

struct Key {
  std::string_view name;
  std::variant<int*, std::int64_t*, std::uint64_t*, double*, bool*, std::optional<int>*,
               std::optional<double>*, std::optional<bool>*, std::vector<std::string>*,
               std::vector<double>*, Choice, Path, Paths, Code>
      place;
  Range range;
  How how;
  std::string_view default_text;  // for the documentation; empty: what its place holds
  std::string_view meaning;

  bool is_auto_with_section() const {
    return how == How::may_be_auto || how == How::auto_if_missing;
  }
  bool may_be_auto() const { return is_auto_with_section() || how == How::auto_if_asked; }
};
using Keys = std::vector<Key>;

// Returns the rows. They point into the argument, which must outlive them.
Keys training_keys(Training& training);
Keys lora_keys(Lora& lora);
Keys loss_scale_keys(LossScale& scale);  // of a moving one
Keys adafactor_keys(Adafactor& settings);
Keys parallelism_keys(Parallelism& parallelism);
Keys objective_keys(Objective& objective);
Keys faults_keys(Faults& faults);
Keys failures_keys(Failures& failures);
Keys data_keys(DataFiles& data);
Keys evaluation_keys(DataFiles::Evaluation& evaluation);
Keys checkpoint_keys(Job::Checkpoint& checkpoint);
Keys log_keys(Job::Log& log);

// Asks `fields` for every key and stores each given value in the key's variable.
void read_keys(Fields& fields, const Keys& keys, Job& job);

// `folder`: that of the job file.
nlohmann::json value_of(const Key& key, const std::string& folder = ".");  // null: none
nlohmann::json write_keys(const Keys& keys, const std::string& folder = ".");

// The section as it is without any key, for whoever describes the job file.
struct Section {
  std::string_view name;  // "training"
  Keys keys;
};
const std::vector<Section>& sections_of_keys();

// Returns the words that a key takes, of either kind. A key with other values has none.
std::vector<std::string> words_of(const Key& key);
std::string type_of(const Key& key);     // as the documentation says it
std::string default_of(const Key& key);  // the same
// Returns the rows as a table in Markdown.
std::string key_table(const Keys& keys);

}  // namespace meshwright
