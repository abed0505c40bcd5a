// A strict reader of JSON objects. A wrong type and a missing, unknown or repeated key are reported
// as an InputError `file: /json/pointer: what is wrong; what would be right`.
//
//   Fields gpu = read_json_file("p4d.json").object("gpu");
//   const int count = gpu.required<int>("count");
//   gpu.done();   // "p4d.json: /gpu/cuont: unknown key; did you mean 'count'?"
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/violation.h"

namespace meshwright::core {

class Fields {
 public:
  // `where` is the file's name, and `pointer` the JSON pointer of this object ("" at the top).
  // Throws InputError if `value` is not an object.
  Fields(nlohmann::json value, std::string where, std::string pointer = "");

  bool has(std::string_view key);  // marks the key as known
  bool is_null() const;
  bool is_string(std::string_view key);  // false when absent
  bool is_object(std::string_view key);
  bool is_array(std::string_view key);

  // Return the value of a key as T: bool, int, std::int64_t, std::uint32_t, std::uint64_t, double,
  // std::string, or std::vector of int, std::int64_t, double or std::string. Throw InputError for
  // another type. Integers accept 8 and 8.0 (std::uint64_t only 8), never 8.5. A number never
  // accepts a string or a bool.
  template <class T>
  T required(std::string_view key);
  template <class T>
  T optional(std::string_view key, T fallback);

  Fields object(std::string_view key);                // required
  std::vector<Fields> objects(std::string_view key);  // required; an array of objects
  std::vector<std::string> keys() const;              // sorted, not in the file's order
  const nlohmann::json& raw(std::string_view key);    // required; for free-form values
  const nlohmann::json& raw() const { return *value_; }

  // Throws InputError if the object has a key that was never asked for. The message names the
  // nearest key that was asked for, or all of them.
  void done() const;

  // Throws an InputError about `key`.
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const {
    fail(key, Violation{.statement = problem});
  }
  [[noreturn]] void fail(std::string_view key, Violation violation) const;
  const std::string& where() const { return where_; }
  const std::string& pointer() const { return pointer_; }

 private:
  const nlohmann::json& find(std::string_view key, const char* expected);
  std::shared_ptr<const nlohmann::json> value_;
  std::string where_;
  std::string pointer_;
  std::set<std::string, std::less<>> known_;
};

// Parses one JSON value. Throws InputError for repeated keys, NaN, numbers beyond double, or more
// than 64 levels. `where` names the source in its messages.
nlohmann::json parse_json(const std::string& text, const std::string& where);

// Returns JSON text in which NaN, Infinity and -Infinity, which Python's json module writes, are
// null.
std::string without_infinities(std::string text);

// Returns the object that a JSON file holds. Throws InputError if the file is missing or
// unreadable, or is no such object.
Fields read_json_file(const std::string& path);
std::string read_file(const std::string& path);

// Returns the index of `value` in `known`. Throws InputError if it is not there: "unknown schedule
// 'foo'; known: gpipe and 1f1b", where `what` is "schedule".
int choose(const Fields& fields, std::string_view key, std::string_view what,
           const std::string& value, const std::vector<std::string>& known);

}  // namespace meshwright::core
