// A strict reader of JSON objects. A wrong type and a missing or unknown key are reported as an
// InputError `file: /json/pointer: what is wrong; what would be right`.
//
//   Fields gpu = read_json_file("p4d.json").object("gpu");
//   const int count = gpu.optional<int>("count", 1);
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
  // Keeps `value`. `where` is the name of its file, and `pointer` its JSON pointer there ("" at the
  // top). Throws InputError if `value` is not an object.
  Fields(nlohmann::json value, std::string where, std::string pointer = "");

  bool has(std::string_view key);  // marks the key as known
  bool is_null() const;
  bool is_string(std::string_view key);  // false when absent
  bool is_object(std::string_view key);
  bool is_array(std::string_view key);

  // Return the value of a key as T: bool, int, std::int64_t, std::uint32_t, std::uint64_t, double,
  // std::string, or std::vector of int, std::int64_t, double or std::string. Throw InputError for
  // another type. Integers accept 8 and 8.0 (std::uint64_t only 8), never 8.5. A number never
  // accepts a string or a bool. For a missing key, required() throws InputError and optional()
  // returns `fallback`.
  template <class T>
  T required(std::string_view key);
  template <class T>
  T optional(std::string_view key, T fallback);

  Fields object(std::string_view key);                // throws InputError if it is no object
  std::vector<Fields> objects(std::string_view key);  // throws InputError if it is no such array
  std::vector<std::string> keys() const;              // sorted, not in the file's order
  const nlohmann::json& raw(std::string_view key);    // of any type; throws if it is missing
  const nlohmann::json& raw() const { return *value_; }

  // Throws InputError if the object has a key that was never asked for. The message suggests a key
  // that may be meant, or lists those that were asked for.
  void done() const;

  // Throws an InputError about `key`, or about this object if `key` is empty.
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

// Parses one JSON value. Throws InputError if `text` is not valid JSON, repeats a key in an object,
// has a number beyond the range of a double, or is nested more than 64 levels deep. `where` names
// the source in messages.
nlohmann::json parse_json(const std::string& text, const std::string& where);

// Returns the JSON text with `null` in place of NaN, Infinity and -Infinity outside of strings.
// Python's json module writes these three, but JSON does not have them.
std::string without_infinities(std::string text);

// Returns the object that a JSON file holds. Throws InputError if the file cannot be read or does
// not hold one JSON object.
Fields read_json_file(const std::string& path);
std::string read_file(const std::string& path);

// Returns the index of `value` in `known`. Throws InputError if it is not there. If `what` is
// "schedule", the message may be "unknown schedule 'foo'; known: gpipe and 1f1b".
int choose(const Fields& fields, std::string_view key, std::string_view what,
           const std::string& value, const std::vector<std::string>& known);

}  // namespace meshwright::core
