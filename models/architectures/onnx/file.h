// Reads an ONNX file as it is stored on disk: nodes in order, weights, inputs and outputs. The wire
// format is protocol buffers (onnx.proto). The operators are explained in docs/Operators.md of
// github.com/onnx/onnx, and the numbers of element types in its onnx/onnx.proto.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::architectures {

using OnnxDims = std::vector<std::int64_t>;

// Has the values of TensorProto.DataType that can be read.
enum class OnnxType : int {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  bf16 = 16
};
bool is_real(OnnxType type);

// Holds an initializer, or the value of an attribute. Its elements are the little-endian bytes
// `raw`, or are stored in a file next to the model.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::f32;
  OnnxDims dims;
  std::string raw;
  // Has the path of the file with the elements. If it is "", the elements are in `raw`.
  std::string external_file;
  std::int64_t external_offset = 0;
  std::int64_t elements() const;
};

struct OnnxAttribute {
  double f = 0;
  std::int64_t i = 0;
  std::string s;
  OnnxTensor t;
  bool has_tensor = false;
  OnnxDims ints;
  std::vector<double> floats;
};

struct OnnxNode {
  std::string name;  // "Add (number 17)" if the file gives none
  std::string op;
  // Has the node's path in PyTorch, as far as the exporter gives it: "model.layers.0.mlp".
  std::string module;
  std::vector<std::string> inputs, outputs;  // "": an optional operand that is absent
  std::map<std::string, OnnxAttribute, std::less<>> attributes;

  std::int64_t integer(std::string_view attribute, std::int64_t usual) const;
  double real(std::string_view attribute, double usual) const;
  const OnnxDims* integers(std::string_view attribute) const;  // nullptr if not given
};

struct OnnxInput {
  std::string name;
  OnnxType type = OnnxType::i64;
  OnnxDims dims;                       // -1: not fixed; dim_names may have its name
  std::vector<std::string> dim_names;  // one for each dimension; may be ""
};

struct OnnxFile {
  std::string path;
  int opset = 0;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> weights;
  std::map<std::string, int, std::less<>> weight_of;  // by name
  std::vector<OnnxInput> inputs;                      // without the weights
  std::vector<std::string> outputs;
};

constexpr int first_opset = 13, last_opset = 25;

// Reads a file. Throws an InputError that begins with the path if the file cannot be read or is no
// ONNX model, if it has an operator set outside of 13 to 25, operators of other domains or element
// types that are not known, or if data is missing or has another length than its shape needs.
OnnxFile read_onnx_file(const std::string& path);

// Returns the elements as fp64, which is exact except for 64-bit integers beyond 2^53. Throws an
// InputError if the elements are in a file that cannot be read up to the last of them.
std::vector<double> values_of(const OnnxFile& file, const OnnxTensor& tensor);

// Returns whether b has the same type, shape and elements as the matrix a, bit by bit, or, with
// `transposed`, as its transpose. Returns false if one of them is not a matrix.
bool have_equal_elements(const OnnxFile& file, const OnnxTensor& a, const OnnxTensor& b,
                         bool transposed);

}  // namespace meshwright::architectures
