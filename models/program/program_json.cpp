// Writes Programs as JSON.
#include "models/program/program_json.h"

#include "models/core/json.h"
#include "models/program/program_fields.h"
#include "models/program/program_words.h"

namespace meshwright::program {

namespace {

template <HasFields T>
json written(const T& value);
template <class T>
json written(const std::vector<T>& list);
json written(const Instruction& instruction);
json written(const Parameter& parameter);
json written(const Bucket& bucket);

template <class T>
requires std::is_arithmetic_v<T> json written(T value) { return value; }
json written(const std::string& text) { return text; }
template <IsEnum Enum>
json written(Enum value) {
  return word_of(value);
}
json written(const Shape& shape) {
  json sizes = json::array();
  for (int i = 0; i < shape.rank; ++i) sizes.push_back(shape[i]);
  return sizes;
}
json written(const TensorType& type) { return word_of(type.dtype) + written(type.shape).dump(); }
json written(const TensorIds& ids) {
  json list = json::array();
  for (const int id : ids) list.push_back(id);
  return list;
}
json written(const std::array<std::int64_t, 3>& list) { return list; }
json written(const std::array<std::int64_t, memory_class_count>& of_class) {
  json value = json::object();
  for (std::size_t cls = 0; cls < of_class.size(); ++cls)
    if (of_class[cls] != 0) value[word_of(static_cast<MemoryClass>(cls))] = of_class[cls];
  return value;
}
template <class T>
json written(const std::optional<T>& value) {
  return written(*value);
}
json written(const std::shared_ptr<const Fusion>& fusion) { return written(*fusion); }
json written(const std::shared_ptr<const Segment>& segment) { return written(*segment); }

template <class T>
json written(const std::vector<T>& list) {
  json value = json::array();
  for (const T& item : list) value.push_back(written(item));
  return value;
}

template <class T>
const T& with_defaults() {
  static const T value{};
  return value;
}

// Returns the fields that differ from the struct's defaults, and those that are always written.
template <class T>
json fields_of(const T& value) {
  const T& usual = with_defaults<T>();
  json object = json::object();
  for_each_field<T>([&](const auto& field) {
    if (field.always || !(value.*field.member == usual.*field.member))
      object[std::string(field.name)] = written(value.*field.member);
  });
  return object;
}

template <HasFields T>
json written(const T& value) {
  return fields_of(value);
}

// A compute instruction always has the name of its operation, even if this is the default of `op`.
json written(const Instruction& instruction) {
  json value = fields_of(instruction);
  if (instruction.kind == InstructionKind::compute) value["op"] = word_of(instruction.op);
  return value;
}

json written(const Parameter& parameter) {
  Parameter lean = parameter;
  if (parameter.shape == parameter.padded_shape) lean.shape = {};
  if (parameter.padded_shape == parameter.global_shape) lean.padded_shape = {};
  return fields_of(lean);
}

json written(const Bucket& bucket) {
  Bucket lean = bucket;
  if (bucket.shard_elements == bucket.elements) lean.shard_elements = 0;
  if (bucket.master == bucket.own_weights) lean.master = {};
  if (bucket.own_weights == bucket.weights) lean.own_weights = {};
  if (bucket.own_gradients == bucket.gradients) lean.own_gradients = {};
  return fields_of(lean);
}

}  // namespace

json to_json(const std::vector<Program>& stages) {
  const Program& first = stages.front();
  json value = {{"format", 1}, {"settings", written(*first.settings)}};
  if (first.modules && !first.modules->empty()) value["modules"] = *first.modules;
  value["stages"] = written(stages);
  return value;
}

}  // namespace meshwright::program
