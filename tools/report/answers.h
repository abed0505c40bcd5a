// What --json prints, key by key: the schema and the page of the documentation are made of it, and
// a test holds it against the answers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

namespace meshwright {

struct AnswerKey {
  // "memory[].peak_bytes"; `*` is any name; `?` at the end: not always there.
  std::string_view path;
  // number, integer, string, boolean, object; `parallelism` and `training`: as in the job file; one
  // of answer_types(); "number or null".
  std::string_view type;
  std::string_view meaning;
};

struct AnswerTable {
  std::string_view name;  // of the command, or of the type
  std::span<const AnswerKey> keys;
};
std::span<const AnswerTable> answer_tables();

// What several answers have: `price`, `errors`, ...
std::span<const AnswerTable> answer_types();

// As a JSON Schema (2020-12): every key that is not optional is there, and no other one.
nlohmann::json answer_schema(const AnswerTable& table);

}  // namespace meshwright
