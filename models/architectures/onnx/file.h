// An ONNX file as it lies on disk: nodes in order, weights, inputs and outputs. The wire format is
// protocol buffers (onnx.proto); what the numbers of types and of operators' versions mean is in
// docs/IR.md and docs/Operators.md of github.com/onnx/onnx.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

using OnnxDims = std::vector<std::int64_t>;

// TensorProto.DataType, as far as it is read.
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

// An initializer, or the value of an attribute. Its elements are `raw`, little-endian, unless they
// lie in a file beside the model.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::f32;
  OnnxDims dims;
  std::string raw;
  std::string external_file;  // "": raw has the elements
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
  std::string name;  // or, where the file gives none, "Add (number 17)"
  std::string op;
  std::string module;  // its path in PyTorch, as far as the exporter says: "model.layers.0.mlp"
  std::vector<std::string> inputs, outputs;  // "": an optional one that is not given
  std::map<std::string, OnnxAttribute, std::less<>> attributes;

  std::int64_t integer(std::string_view attribute, std::int64_t usual) const;
  double real(std::string_view attribute, double usual) const;
  const OnnxDims* integers(std::string_view attribute) const;  // nullptr: not given
};

struct OnnxInput {
  std::string name;
  OnnxType type = OnnxType::i64;
  OnnxDims dims;                       // -1: `names` has its name, or it has none
  std::vector<std::string> dim_names;  // as many
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

constexpr int first_opset = 13, last_opset = 18;

// Every fault of the file is an InputError `path: what is wrong`: not a file, not of ONNX, cut off,
// an operator set outside of 13 to 18, operators of other domains, an unknown type, data of another
// length than the shape says, weights in a file that is not there.
OnnxFile read_onnx_file(const std::string& path);

// The elements as fp64 (fp32 is exact in it; integers up to 2^53). A file that ends before is an
// InputError.
std::vector<double> values_of(const OnnxFile& file, const OnnxTensor& tensor);

// Whether two matrices have the same elements, bit by bit; `transposed`: b lies as [columns, rows]
// of a.
bool have_equal_elements(const OnnxFile& file, const OnnxTensor& a, const OnnxTensor& b,
                         bool transposed);

}  // namespace meshwright
