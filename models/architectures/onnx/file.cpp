#include "models/architectures/onnx/file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include <onnx.pb.h>
#include "models/core/error.h"
#include "models/core/names_in.h"
#include "models/core/open_file.h"
#include "models/core/utf8.h"

namespace meshwright::architectures {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_elements = std::int64_t{1} << 40;
constexpr std::size_t most_dims = 8;

struct TypeRow {
  OnnxType type;
  std::string_view name;
  std::int64_t bytes;
};

constexpr TypeRow type_rows[] = {
    {OnnxType::f32, "float", 4},  {OnnxType::f16, "float16", 2}, {OnnxType::bf16, "bfloat16", 2},
    {OnnxType::f64, "double", 8}, {OnnxType::i64, "int64", 8},   {OnnxType::i32, "int32", 4},
    {OnnxType::i8, "int8", 1},    {OnnxType::u8, "uint8", 1},    {OnnxType::boolean, "bool", 1}};

const TypeRow* type_row(int number) {
  for (const TypeRow& row : type_rows)
    if (static_cast<int>(row.type) == number) return &row;
  return nullptr;
}

std::int64_t bytes_per_element(OnnxType type) { return type_row(static_cast<int>(type))->bytes; }

// Returns the path of a node's module in PyTorch: "model.layers.0.self_attn" for the name
// "/model/layers.0/self_attn/MatMul_1". The newer exporter of torch instead stores the path in the
// node's metadata, module by module and with the operation at the end: "['', 'model',
// 'model.layers.0', 'model.layers.0.self_attn', 'matmul_1']". Returns "" if neither gives a path.
std::string module_of(const onnx_file::NodeProto& node) {
  for (const auto& remark : node.metadata_props()) {
    if (remark.key() != "pkg.torch.onnx.name_scopes") continue;
    std::vector<std::string> quoted = {"", ""};  // the last two quoted strings
    bool inside = false;
    for (const char c : remark.value()) {
      if (c == '\'' && !inside) quoted = {quoted[1], ""};
      if (c == '\'')
        inside = !inside;
      else if (inside)
        quoted[1] += c;
    }
    return quoted[0];
  }
  const std::string& name = node.name();
  if (!name.starts_with("/")) return "";
  std::string path = name.substr(1, std::max<std::size_t>(name.rfind('/'), 1) - 1);
  std::ranges::replace(path, '/', '.');
  return path;
}

// Reads a parsed model into an OnnxFile. Throws an InputError that begins with the path if the
// model is wrong.
class OnnxReader {
 public:
  OnnxReader(onnx_file::ModelProto& model, std::string path) : model_(model) {
    file_.path = std::move(path);
  }

  OnnxFile read() {
    read_opset();
    if (!model_.has_graph()) fail("has no graph; export the model with torch.onnx or optimum");
    for (auto& tensor : *model_.mutable_graph()->mutable_initializer()) add_weight(tensor);
    for (const auto& input : model_.graph().input())
      if (!file_.weight_of.contains(input.name())) add_input(input);
    for (const auto& output : model_.graph().output()) file_.outputs.push_back(output.name());
    for (auto& node : *model_.mutable_graph()->mutable_node()) add_node(node);
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(file_.path + ": " + what);
  }

  // Checks that a string is UTF-8, because protobuf accepts any bytes, and names of a model are
  // written as text.
  void check_text(const std::string& text, const char* what) const {
    if (valid_utf8(text) < text.size())
      fail(std::string(what) + " '" + as_utf8(text) + "' is not UTF-8; export the model again");
  }

  void read_opset() {
    bool found = false;
    for (const auto& set : model_.opset_import()) {
      if (!set.domain().empty() && set.domain() != "ai.onnx") continue;
      found = true;
      if (set.version() < first_opset || set.version() > last_opset)
        fail("operator set " + std::to_string(set.version()) + " is not known; export with " +
             std::to_string(first_opset) + " to " + std::to_string(last_opset));
      file_.opset = static_cast<int>(set.version());
    }
    if (!found)
      fail("is not an ONNX model: it names no operator set; export with " +
           std::to_string(first_opset) + " to " + std::to_string(last_opset));
  }

  OnnxType type_of(int number, const std::string& what) const {
    const TypeRow* row = type_row(number);
    if (row != nullptr) return row->type;
    fail(what + ": element type " + std::to_string(number) +
         " is not known; known: " + list_of(names_in(type_rows), "and"));
  }

  // Returns the tensor `from`, whose raw data is moved out of it. `what` names the tensor in
  // messages.
  OnnxTensor tensor_of(onnx_file::TensorProto& from, const std::string& what) {
    OnnxTensor tensor;
    tensor.name = from.name();
    tensor.type = type_of(from.data_type(), what);
    if (from.dims_size() > static_cast<int>(most_dims))
      fail(what + ": has " + std::to_string(from.dims_size()) + " dimensions; at most 8 are read");
    std::int64_t count = 1;
    for (const std::int64_t dim : from.dims()) {
      if (dim < 0 || (dim > 0 && count > most_elements / dim))
        fail(what + ": dimension " + std::to_string(dim) + " is out of range");
      count *= dim;
      tensor.dims.push_back(dim);
    }
    const std::int64_t bytes = count * bytes_per_element(tensor.type);
    if (from.data_location() == 1)
      read_external(from, bytes, what, tensor);
    else
      read_inline(from, tensor);
    if (tensor.external_file.empty() && static_cast<std::int64_t>(tensor.raw.size()) != bytes)
      fail(what + ": has " + std::to_string(tensor.raw.size()) + " bytes of data, but its shape " +
           "needs " + std::to_string(bytes));
    return tensor;
  }

  template <class T, class Numbers>
  static void append(std::string& raw, const Numbers& numbers) {
    for (const auto number : numbers) {
      const T value = static_cast<T>(number);
      raw.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
  }

  // Takes the elements from raw_data, or from the list that onnx.proto has for their type.
  static void read_inline(onnx_file::TensorProto& from, OnnxTensor& tensor) {
    if (from.has_raw_data()) {
      tensor.raw = std::move(*from.mutable_raw_data());
      return;
    }
    switch (tensor.type) {
      case OnnxType::f32:
        return append<float>(tensor.raw, from.float_data());
      case OnnxType::f64:
        return append<double>(tensor.raw, from.double_data());
      case OnnxType::i64:
        return append<std::int64_t>(tensor.raw, from.int64_data());
      case OnnxType::i32:
        return append<std::int32_t>(tensor.raw, from.int32_data());
      case OnnxType::f16:
      case OnnxType::bf16:
        return append<std::uint16_t>(tensor.raw, from.int32_data());
      case OnnxType::i8:
      case OnnxType::u8:
      case OnnxType::boolean:
        return append<std::uint8_t>(tensor.raw, from.int32_data());
    }
  }

  std::int64_t number_of(const std::string& text, const std::string& what) const {
    if (text.empty() || text.size() > 18 ||
        text.find_first_not_of("0123456789") != std::string::npos)
      fail(what + ": '" + text + "' is no place in a file");
    return std::stoll(text);
  }

  void read_external(const onnx_file::TensorProto& from, std::int64_t bytes,
                     const std::string& what, OnnxTensor& tensor) {
    std::string location;
    for (const auto& entry : from.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") tensor.external_offset = number_of(entry.value(), what);
      if (entry.key() == "length" && number_of(entry.value(), what) != bytes)
        fail(what + ": has " + entry.value() + " bytes of data, but its shape needs " +
             std::to_string(bytes));
    }
    const fs::path relative(location);
    bool climbs = location.empty() || relative.is_absolute();
    for (const fs::path& part : relative) climbs = climbs || part == "..";
    if (climbs) fail(what + ": its data lies in '" + location + "'; use a file beside the model");
    tensor.external_file = (fs::path(file_.path).parent_path() / relative).string();
    std::error_code error;
    const auto size = fs::file_size(tensor.external_file, error);
    if (error)
      fail(what + ": its data lies in '" + location + "', which is not there; put it beside the " +
           "model");
    if (size <
        static_cast<std::uintmax_t>(tensor.external_offset) + static_cast<std::uintmax_t>(bytes))
      fail(what + ": its data lies in '" + location + "', which ends before");
  }

  void add_weight(onnx_file::TensorProto& from) {
    check_text(from.name(), "the name of initializer");
    const std::string what = "initializer " + from.name();
    const int index = static_cast<int>(file_.weights.size());
    if (from.name().empty() || !file_.weight_of.emplace(from.name(), index).second)
      fail(what + ": is there twice, or has no name");
    file_.weights.push_back(tensor_of(from, what));
  }

  void add_input(const onnx_file::ValueInfoProto& from) {
    OnnxInput input;
    input.name = from.name();
    check_text(input.name, "the name of input");
    const std::string what = "input " + input.name;
    if (!from.type().has_tensor_type()) fail(what + ": is no tensor");
    const auto& type = from.type().tensor_type();
    input.type = type_of(type.elem_type(), what);
    for (const auto& dim : type.shape().dim()) {
      input.dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
      input.dim_names.push_back(dim.dim_param());
    }
    file_.inputs.push_back(std::move(input));
  }

  void add_node(onnx_file::NodeProto& from) {
    OnnxNode node;
    node.op = from.op_type();
    node.name = from.name().empty()
                    ? node.op + " (number " + std::to_string(file_.nodes.size()) + ")"
                    : from.name();
    check_text(node.op, "the operation");
    check_text(node.name, "the name of node");
    const std::string what = "node " + node.name;
    if (!from.domain().empty() && from.domain() != "ai.onnx")
      fail(what + ": operation " + node.op + " is of the domain " + from.domain() +
           "; export without operators of a runtime's own");
    node.module = module_of(from);
    check_text(node.module, "the module");
    node.inputs.assign(from.input().begin(), from.input().end());
    node.outputs.assign(from.output().begin(), from.output().end());
    for (auto& attribute : *from.mutable_attribute()) {
      OnnxAttribute& to = node.attributes[attribute.name()];
      to.f = attribute.f();
      to.i = attribute.i();
      to.s = attribute.s();
      to.ints.assign(attribute.ints().begin(), attribute.ints().end());
      to.floats.assign(attribute.floats().begin(), attribute.floats().end());
      to.has_tensor = attribute.has_t();
      if (to.has_tensor)
        to.t = tensor_of(*attribute.mutable_t(), what + ": attribute " + attribute.name());
    }
    file_.nodes.push_back(std::move(node));
  }

  onnx_file::ModelProto& model_;
  OnnxFile file_;
};

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

template <class T>
void convert(const std::string& raw, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

void convert_16_bits(const std::string& raw, bool brain, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, raw.data() + i * 2, 2);
    values[i] = brain ? std::bit_cast<float>(std::uint32_t{bits} << 16) : half_value(bits);
  }
}

std::string external_bytes(const OnnxFile& file, const OnnxTensor& tensor) {
  std::string raw(static_cast<std::size_t>(tensor.elements() * bytes_per_element(tensor.type)), 0);
  std::ifstream stream(tensor.external_file, std::ios::binary);
  stream.seekg(tensor.external_offset);
  if (!stream.read(raw.data(), static_cast<std::streamsize>(raw.size())))
    throw InputError(file.path + ": initializer " + tensor.name + ": " + tensor.external_file +
                     " cannot be read");
  return raw;
}

}  // namespace

bool is_real(OnnxType type) {
  return type == OnnxType::f32 || type == OnnxType::f16 || type == OnnxType::bf16 ||
         type == OnnxType::f64;
}

std::int64_t OnnxTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

std::int64_t OnnxNode::integer(std::string_view attribute, std::int64_t usual) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? usual : found->second.i;
}

double OnnxNode::real(std::string_view attribute, double usual) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? usual : found->second.f;
}

const OnnxDims* OnnxNode::integers(std::string_view attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? nullptr : &found->second.ints;
}

OnnxFile read_onnx_file(const std::string& path) {
  check_readable(path);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) throw InputError(path + ": is no file that can be read");
  if (size > static_cast<std::uintmax_t>(std::numeric_limits<int>::max()))
    throw InputError(path + ": is larger than 2 GiB, which no ONNX file is; weights of larger " +
                     "models lie in a file beside it");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(path + ": cannot be read");
  onnx_file::ModelProto model;
  if (size == 0 || !model.ParseFromIstream(&stream))
    throw InputError(path + ": is not an ONNX file, or was cut off; export it again");
  return OnnxReader(model, path).read();
}

bool have_equal_elements(const OnnxFile& file, const OnnxTensor& a, const OnnxTensor& b,
                         bool transposed) {
  if (a.type != b.type || a.dims.size() != 2 || b.dims.size() != 2) return false;
  const OnnxDims wanted = transposed ? OnnxDims{a.dims[1], a.dims[0]} : a.dims;
  if (b.dims != wanted) return false;
  const std::string other = b.external_file.empty() ? b.raw : external_bytes(file, b);
  const std::string own = a.external_file.empty() ? a.raw : external_bytes(file, a);
  if (!transposed) return own == other;
  const auto rows = static_cast<std::size_t>(a.dims[0]),
             columns = static_cast<std::size_t>(a.dims[1]);
  const auto size = static_cast<std::size_t>(bytes_per_element(a.type));
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      if (std::memcmp(own.data() + (row * columns + column) * size,
                      other.data() + (column * rows + row) * size, size) != 0)
        return false;
  return true;
}

std::vector<double> values_of(const OnnxFile& file, const OnnxTensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  const std::string external =
      tensor.external_file.empty() ? std::string() : external_bytes(file, tensor);
  const std::string& raw = tensor.external_file.empty() ? tensor.raw : external;
  switch (tensor.type) {
    case OnnxType::f32:
      convert<float>(raw, values);
      break;
    case OnnxType::f64:
      convert<double>(raw, values);
      break;
    case OnnxType::i64:
      convert<std::int64_t>(raw, values);
      break;
    case OnnxType::i32:
      convert<std::int32_t>(raw, values);
      break;
    case OnnxType::i8:
      convert<std::int8_t>(raw, values);
      break;
    case OnnxType::u8:
    case OnnxType::boolean:
      convert<std::uint8_t>(raw, values);
      break;
    case OnnxType::f16:
    case OnnxType::bf16:
      convert_16_bits(raw, tensor.type == OnnxType::bf16, values);
      break;
  }
  return values;
}

}  // namespace meshwright::architectures
