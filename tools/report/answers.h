// Describes what --json prints, key by key. The schemas and the documentation are made from these
// tables, and a test compares them with real outputs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

namespace meshwright::tools {

struct AnswerKey {
  // Has the path of the key: "memory[].peak_bytes". `*` is any name. A `?` at the end marks an
  // optional key.
  std::string_view path;
  // Has the type of the value: number, integer, string, boolean, array, object or any, one of
  // answer_types(), or `parallelism` or `training` as in the job file. " or null" may follow.
  // "machine errors" are `errors` that name a machine instead of a file.
  std::string_view type;
  std::string_view meaning;
};

struct AnswerTable {
  std::string_view name;  // name of a command or of a type
  std::span<const AnswerKey> keys;
};
std::span<const AnswerTable> answer_tables();

// Returns the types that several outputs share: `price`, `errors`, ...
std::span<const AnswerTable> answer_types();

// Returns a JSON Schema (2020-12) in which every key is required unless it is optional, and no
// other key is allowed.
nlohmann::json answer_schema(const AnswerTable& table);

}  // namespace meshwright::tools
