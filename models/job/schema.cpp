#include "models/job/schema.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/job/keys.h"
#include "models/job/written_numbers.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

json with_range(json type, const Range& range) {
  if (std::isfinite(range.low)) type[range.above_low ? "exclusiveMinimum" : "minimum"] = range.low;
  if (std::isfinite(range.high))
    type[range.below_high ? "exclusiveMaximum" : "maximum"] = range.high;
  return type;
}

json schema_of(const Keys& keys);

const json texts = {{"type", "array"}, {"items", {{"type", "string"}}}};

struct TypeSchema {
  const Key& key;

  json operator()(const bool*) const { return {{"type", "boolean"}}; }
  json operator()(const double*) const { return with_range({{"type", "number"}}, key.range); }
  template <class Integer>
  json operator()(const Integer*) const {
    return with_range({{"type", "integer"}}, key.range);
  }
  template <class T>
  json operator()(const std::optional<T>*) const {
    return (*this)(static_cast<const T*>(nullptr));
  }
  json operator()(const std::string*) const { return {{"type", "string"}}; }
  json operator()(const std::vector<std::string>*) const { return texts; }
  json operator()(const std::vector<double>*) const {
    return {{"type", "array"}, {"items", with_range({{"type", "number"}}, key.range)}};
  }
  json operator()(const Choice& choice) const { return {{"enum", choice.words}}; }
  json operator()(Path) const { return {{"type", "string"}}; }
  json operator()(Paths) const { return texts; }
  json operator()(const Object& object) const {
    json type = schema_of(object.initial());
    return object.from_file == nullptr ? type
                                       : json{{"anyOf", {std::move(type), {{"type", "string"}}}}};
  }
  // The words are offered by editors, but other values are valid too.
  json operator()(const Code& code) const {
    json others = json::parse(code.schema);
    if (code.words.empty()) return others;
    return {{"anyOf", {{{"enum", code.words}}, std::move(others)}}};
  }
};

json schema_of(const Key& key) {
  json type = std::visit(TypeSchema{key}, key.place);
  if (key.may_be_auto()) type = {{"anyOf", {std::move(type), {{"const", "auto"}}}}};
  type["description"] = key.meaning;
  if (!default_of(key).empty() && key.how != How::required)
    type["$comment"] = "default: " + default_of(key);
  return type;
}

json schema_of(const Keys& keys) {
  json properties = json::object(), required = json::array();
  for (const Key& key : keys) {
    properties[std::string(key.name)] = schema_of(key);
    if (key.how == How::required) required.push_back(key.name);
  }
  json schema = {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

}  // namespace

json job_schema() {
  json properties = {{"$schema", {{"type", "string"}}},
                     {"name", {{"type", "string"}}},
                     {"model",
                      {{"description",
                        "a name of `list models`, the path of a config.json, an own.model.json or "
                        "an ONNX file, or the content of such a JSON file"},
                       {"type", {"string", "object"}}}},
                     {"instance_type", {{"type", "string"}}},
                     {"instance_count", json::object()},
                     {"distribution", {{"type", "object"}}},
                     {"compiler_config", {{"type", "object"}}}};
  for (const Section& section : sections_of_keys())
    properties[std::string(section.name)] = schema_of(section.keys);
  for (const auto& [section, key, quantity] : written_keys()) {
    json& type = properties[std::string(section)]["properties"][std::string(key)];
    json words = {{"type", "string"},
                  {"description", "or " + std::string(expected_number(quantity))}};
    type = {{"anyOf", {std::move(type), std::move(words)}}};
  }
  json& parallelism = properties["parallelism"];
  parallelism = {{"anyOf", {std::move(parallelism), {{"const", "auto"}}}}};
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A job of meshwright"},
          {"type", "object"},
          {"required", {"model", "training"}},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

}  // namespace meshwright::job
