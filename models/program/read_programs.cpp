// Reads Programs from JSON. Implements read_programs() of program_json.h.
#include <algorithm>
#include <charconv>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/program/program_fields.h"
#include "models/program/program_json.h"
#include "models/program/program_words.h"

namespace meshwright::program {

namespace {

template <HasFields T>
void read(Fields& fields, std::string_view key, T& target);
template <class T>
void read(Fields& fields, std::string_view key, std::vector<T>& target);

template <class T>
requires std::is_arithmetic_v<T>
void read(Fields& fields, std::string_view key, T& target) { target = fields.required<T>(key); }
void read(Fields& fields, std::string_view key, std::string& target) {
  target = fields.required<std::string>(key);
}
template <IsEnum Enum>
void read(Fields& fields, std::string_view key, Enum& target) {
  target = static_cast<Enum>(
      choose(fields, key, key, fields.required<std::string>(key), known_words<Enum>()));
}

// The largest number of elements that a tensor may have to be read. Bytes are counted in 63 bits,
// so products of sizes must stay far below that.
constexpr double most_elements = 1e15;

void add_size(const Fields& fields, std::string_view key, std::int64_t size, Shape& shape) {
  if (shape.rank == static_cast<int>(shape.dims.size()))
    fields.fail(key, "more than " + std::to_string(shape.rank) + " sizes");
  if (size < 0 || static_cast<double>(shape.elements()) * static_cast<double>(size) > most_elements)
    fields.fail(key, std::to_string(size) + " is no size of a tensor of at most 1e15 elements");
  shape.dims[shape.rank++] = size;
}

void read(Fields& fields, std::string_view key, Shape& target) {
  target = {};
  for (const std::int64_t size : fields.required<std::vector<std::int64_t>>(key))
    add_size(fields, key, size, target);
}

// Returns the type that a text like "f32[4,128]" describes. Throws InputError for another text.
TensorType type_of(const Fields& fields, std::string_view key, const std::string& text) {
  const std::size_t bracket = std::min(text.find('['), text.size());
  TensorType type;
  type.dtype = static_cast<Dtype>(
      choose(fields, key, "element type", text.substr(0, bracket), known_words<Dtype>()));
  const auto refuse = [&] {
    fields.fail(key, "'" + text + "' is no type; use an element type and sizes, like f32[4,128]");
  };
  if (bracket == text.size() || text.back() != ']') refuse();
  const char *at = text.data() + bracket + 1, *const end = text.data() + text.size() - 1;
  while (at < end) {
    std::int64_t size = 0;
    const auto [after, error] = std::from_chars(at, end, size);
    if (error != std::errc{} || (after != end && (*after != ',' || after + 1 == end))) refuse();
    add_size(fields, key, size, type.shape);
    at = after == end ? end : after + 1;
  }
  return type;
}

void read(Fields& fields, std::string_view key, TensorType& target) {
  target = type_of(fields, key, fields.required<std::string>(key));
}
void read(Fields& fields, std::string_view key, TensorIds& target) {
  const auto ids = fields.required<std::vector<int>>(key);
  target = {};
  for (const int id : ids) target.push_back(id);
}
void read(Fields& fields, std::string_view key, std::array<std::int64_t, 3>& target) {
  const auto list = fields.required<std::vector<std::int64_t>>(key);
  if (list.size() != target.size()) fields.fail(key, "three numbers are needed");
  std::ranges::copy(list, target.begin());
}
void read(Fields& fields, std::string_view key,
          std::array<std::int64_t, memory_class_count>& target) {
  Fields of_class = fields.object(key);
  for (std::size_t cls = 0; cls < target.size(); ++cls)
    target[cls] =
        of_class.optional<std::int64_t>(word_of(static_cast<MemoryClass>(cls)), target[cls]);
  of_class.done();
}
template <class T>
void read(Fields& fields, std::string_view key, std::optional<T>& target) {
  read(fields, key, target.emplace());
}
template <class T>
void read(Fields& fields, std::string_view key, std::shared_ptr<const T>& target) {
  auto value = std::make_shared<T>();
  read(fields, key, *value);
  target = std::move(value);
}

template <class T>
void read_fields(Fields& fields, T& target) {
  for_each_field<T>([&](const auto& field) {
    if (fields.has(field.name)) read(fields, field.name, target.*field.member);
  });
  fields.done();
}

// Sets omitted fields of a struct that equal other fields, or throws InputError if a required field
// is missing. This template does nothing, because most structs need neither.
template <class T>
void complete(const Fields&, T&) {}

void complete(Fields& fields, Instruction& instruction) {
  if (instruction.kind == InstructionKind::compute && !fields.has("op"))
    fields.fail("op", "missing; what computes has the name of an operation");
}
void complete(Fields& fields, FusedStep&) {
  if (!fields.has("op")) fields.fail("op", "missing; a step has the name of an operation");
}
void complete(Fields&, Parameter& parameter) {
  if (parameter.padded_shape.rank == 0) parameter.padded_shape = parameter.global_shape;
  if (parameter.shape.rank == 0) parameter.shape = parameter.padded_shape;
}
void complete(Fields&, Bucket& bucket) {
  if (bucket.shard_elements == 0) bucket.shard_elements = bucket.elements;
  if (bucket.own_weights.buffer < 0) bucket.own_weights = bucket.weights;
  if (bucket.own_gradients.buffer < 0) bucket.own_gradients = bucket.gradients;
  if (bucket.master.buffer < 0) bucket.master = bucket.own_weights;
}

template <HasFields T>
void read(Fields& fields, std::string_view key, T& target) {
  Fields own = fields.object(key);
  target = {};
  read_fields(own, target);
  complete(own, target);
}

template <HasFields T>
void read_list(Fields& fields, std::string_view key, std::vector<T>& target) {
  for (Fields& own : fields.objects(key)) {
    read_fields(own, target.emplace_back());
    complete(own, target.back());
  }
}
void read_list(Fields& fields, std::string_view key, std::vector<int>& target) {
  target = fields.required<std::vector<int>>(key);
}
void read_list(Fields& fields, std::string_view key, std::vector<std::int64_t>& target) {
  target = fields.required<std::vector<std::int64_t>>(key);
}
void read_list(Fields& fields, std::string_view key, std::vector<char>& target) {
  for (const int flag : fields.required<std::vector<int>>(key)) {
    if (flag != 0 && flag != 1) fields.fail(key, "only 0 and 1 are flags");
    target.push_back(static_cast<char>(flag));
  }
}
void read_list(Fields& fields, std::string_view key, std::vector<std::string>& target) {
  target = fields.required<std::vector<std::string>>(key);
}
void read_list(Fields& fields, std::string_view key, std::vector<TensorType>& target) {
  for (const std::string& text : fields.required<std::vector<std::string>>(key))
    target.push_back(type_of(fields, key, text));
}
void read_list(Fields& fields, std::string_view key,
               std::vector<std::vector<std::int64_t>>& target) {
  const json& rows = fields.raw(key);
  if (!rows.is_array()) fields.fail(key, "expected a list of lists of numbers");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string index = std::to_string(i);
    Fields row(json{{index, rows[i]}}, fields.where(), fields.pointer() + "/" + std::string(key));
    target.push_back(row.required<std::vector<std::int64_t>>(index));
  }
}

template <class T>
void read(Fields& fields, std::string_view key, std::vector<T>& target) {
  target.clear();
  read_list(fields, key, target);
}

}  // namespace

std::vector<Program> read_programs(Fields fields) {
  if (const int format = fields.required<int>("format"); format != 1)
    fields.fail("format", std::to_string(format) + " is not known; use 1");
  auto settings = std::make_shared<JobSettings>();
  read(fields, "settings", *settings);
  auto modules = std::make_shared<std::vector<std::string>>(
      fields.optional<std::vector<std::string>>("modules", {}));
  std::vector<Program> stages;
  read(fields, "stages", stages);
  fields.done();
  for (Program& program : stages) {
    program.settings = settings;
    program.modules = modules;
  }
  check_programs(stages, fields.where());
  return stages;
}

}  // namespace meshwright::program
