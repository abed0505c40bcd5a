// A strict reader of JSON objects: a wrong type, a missing, an unknown or a repeated key is an
// InputError `file: /json/pointer: what is wrong; what would be right`.
//
//   Fields gpu = read_json_file("p4d.json").object("gpu");
//   const int count = gpu.required<int>("count");
//   gpu.done();   // "p4d.json: /gpu/cuont: unknown key; did you mean 'count'?"
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

class Fields {
 public:
  // `where` is the file's name; `pointer` the JSON pointer of this object ("" at the top).
  Fields(nlohmann::json value, std::string where, std::string pointer = "");

  bool has(std::string_view key);  // marks the key as known
  bool is_null() const;
  bool is_string(std::string_view key);  // false when absent
  bool is_object(std::string_view key);
  bool is_array(std::string_view key);

  // T: bool, int, std::int64_t, std::uint64_t, double, std::string, and std::vector of these.
  // An integer accepts 8 and 8.0, never 8.5; a number never accepts a string or a bool.
  template <class T>
  T required(std::string_view key);
  template <class T>
  T optional(std::string_view key, T fallback);

  Fields object(std::string_view key);                // required
  std::vector<Fields> objects(std::string_view key);  // required; an array of objects
  std::vector<std::string> keys() const;              // in file order is not kept: sorted
  const nlohmann::json& raw(std::string_view key);    // required; for free-form values
  const nlohmann::json& raw() const { return *value_; }

  // Throws InputError for a key that was never asked for. The message names the nearest asked-for
  // key.
  void done() const;

  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;
  // Throws a WrongChoice.
  [[noreturn]] void fail(std::string_view key, const std::string& statement,
                         const std::vector<std::int64_t>& choices) const;
  const std::string& where() const { return where_; }
  const std::string& pointer() const { return pointer_; }

 private:
  std::string place_of(std::string_view key) const;  // "job.json: /training/steps: "
  const nlohmann::json& find(std::string_view key, const char* expected);
  std::shared_ptr<const nlohmann::json> value_;
  std::string where_;
  std::string pointer_;
  std::set<std::string, std::less<>> known_;
};

// Parses strictly: one value, no duplicate keys, no NaN, no number beyond double, at most 64
// levels. `where` names the source in errors.
nlohmann::json parse_json(const std::string& text, const std::string& where);

// Reads a file and parses it as an object; a missing or unreadable file is an InputError.
Fields read_json_file(const std::string& path);
std::string read_file(const std::string& path);

// Checks `value` against the words of a table: "unknown schedule 'foo'; known: gpipe, 1f1b".
// Returns its index.
int choose(const Fields& fields, std::string_view key, std::string_view what,
           const std::string& value, const std::vector<std::string>& known);

}  // namespace meshwright
