// Declares the keys of the job file's sections, one row for each key. A key is read (read_keys),
// written (write_keys) and documented (key_table, for docs/job-file.md) by its row. Rules between
// several keys are in verify(plan, model), or in the section's reader.
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

namespace meshwright::job {

// The numbers that a key may have. With `by_reader`, the range is checked while the key is read.
// Other ranges are checked by verify(plan, model), whose messages say more, and are only documented
// here.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false, below_high = false;  // the end itself is excluded
  bool by_reader = false;
};
constexpr Range any = {};  // every number; also for keys that are not numbers
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

// A key whose value is one of several words. Its variable is an enumerator, a flag or a string.
struct Choice {
  std::string_view what;  // "unknown <what> 'foo'; known: ..."
  std::vector<std::string> words;
  std::function<std::size_t()> chosen;
  std::function<void(std::size_t)> choose;
};

// Returns a choice whose words are in the order of the enumerators. For a flag, the words stand for
// false and true.
template <class Enum>
Choice choice(std::string_view what, std::vector<std::string> words, Enum& place) {
  return {what, std::move(words), [&place] { return static_cast<std::size_t>(place); },
          [&place](std::size_t index) { place = static_cast<Enum>(index); }};
}

// Returns a choice whose words stand for `values`, word by word.
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

// The path of a file or folder. The job file gives it relative to its own folder.
struct Path {
  std::string* place;
};
struct Paths {
  std::vector<std::string>* place;
};

struct Key;
using Keys = std::vector<Key>;

// An object with rows of its own.
struct Object {
  std::function<Keys()> initial;  // rows with initial values, for the documentation
  std::function<Keys()> given;    // the rows to write; empty: the object is not written
  std::function<void(Fields&, Job&)> read;
  Fields (*from_file)(Fields&, Job&) = nullptr;  // opens the file that may be named instead
};

// A key that needs code of its own.
struct Code {
  std::string type;                         // for the documentation; "{}" stands for the words
  std::vector<std::string> words;           // some of its values, perhaps not all
  std::function<void(Fields&, Job&)> read;  // called if the key is given and is not "auto"
  std::function<nlohmann::json()> write;    // returns null if nothing is to be written
  std::string_view schema = "{}";           // JSON Schema of values that are not among the words
};
inline Code code(std::string type, std::vector<std::string> words,
                 std::function<void(Fields&, Job&)> read, std::function<nlohmann::json()> write,
                 std::string_view schema = "{}") {
  return {std::move(type), std::move(words), std::move(read), std::move(write), schema};
}

// Says how a key may be given, and when it is written.
enum class How : std::uint8_t {
  plain,
  required,
  may_be_auto,      // may be "auto", so that the planner decides
  auto_if_asked,    // may be "auto", but "auto" for the whole section does not include it
  auto_if_missing,  // may be "auto", and is "auto" if it is left out
  if_set,           // not written if it is 0, false or empty, which means that it is not set
  set_or_auto       // both if_set and auto_if_asked
};

struct Key {
  std::string_view name;
  std::variant<int*, std::int64_t*, std::uint64_t*, double*, bool*, std::optional<int>*,
               std::optional<double>*, std::optional<bool>*, std::string*,
               std::vector<std::string>*, std::vector<double>*, Choice, Path, Paths, Object, Code>
      place;
  Range range;
  How how;
  std::string_view default_text;  // for the documentation; empty: the initial value
  std::string_view meaning;

  bool is_auto_with_section() const {
    return how == How::may_be_auto || how == How::auto_if_missing;
  }
  bool may_be_auto() const {
    return is_auto_with_section() || how == How::auto_if_asked || how == How::set_or_auto;
  }
  bool is_written_if_set() const { return how == How::if_set || how == How::set_or_auto; }
};

// Returns the rows. They point into the argument, which must outlive them.
Keys training_keys(Training& training);
Keys parallelism_keys(Parallelism& parallelism);
Keys objective_keys(Objective& objective);
Keys cluster_keys(ClusterRequest& cluster);
Keys faults_keys(Faults& faults);
Keys failures_keys(Failures& failures);
Keys data_keys(DataFiles& data);
Keys evaluation_keys(DataFiles::Evaluation& evaluation);
Keys checkpoint_keys(Job::Checkpoint& checkpoint);
Keys log_keys(Job::Log& log);

// Reads every key of `keys` that `fields` has, and stores its value in the key's variable. Notes
// keys that are "auto" in job.autos, and missing keys that may be "auto" in job.left_out. Throws
// InputError if a required key is missing or a value is wrong.
void read_keys(Fields& fields, const Keys& keys, Job& job);

// Return the object in `place`, or null if there is none to write. An object that is not optional
// is only written if it differs from the initial one.
template <class T>
T* object_in(std::optional<T>& place) {
  return place ? &*place : nullptr;
}
template <class T>
T* object_in(T& place) {
  return place == T{} ? nullptr : &place;
}

// Returns the kind of a key whose object has the rows `rows` and is stored in `place`, a T or a
// std::optional<T>. `check` throws InputError if the object breaks a rule between its keys.
template <class T, class Place>
Object object(Place& place, Keys (*rows)(T&), void (*check)(Fields&, T&) = nullptr) {
  return {[rows] {
            static T initial;
            return rows(initial);
          },
          [&place, rows] {
            T* const set = object_in(place);
            return set == nullptr ? Keys() : rows(*set);
          },
          [&place, rows, check](Fields& fields, Job& job) {
            T value;
            read_keys(fields, rows(value), job);
            if (check != nullptr) check(fields, value);
            place = std::move(value);
          }};
}

// Return the value of a key, or all keys of a section as an object. Paths are written relative to
// `folder`, the job file's folder. A value of null means that nothing is written for the key.
nlohmann::json value_of(const Key& key, const std::string& folder = ".");
nlohmann::json write_keys(const Keys& keys, const std::string& folder = ".");

// A section whose variables have their initial values, for code that describes the job file.
struct Section {
  std::string_view name;  // "training"
  Keys keys;
};
const std::vector<Section>& sections_of_keys();

// Returns the words that the value of a key may be. The list is empty for keys without words.
std::vector<std::string> words_of(const Key& key);
// Return a key's type and its default in the words of the documentation. The default is "" if there
// is none, and "required" for required keys.
std::string type_of(const Key& key);
std::string type_of(const Keys& keys);  // of an object with these keys
std::string default_of(const Key& key);
// Return the rows `keys`, or those of all schedules, as a table in Markdown.
std::string key_table(const Keys& keys);
std::string schedule_table();

}  // namespace meshwright::job
