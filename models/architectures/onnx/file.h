// Reads an ONNX file as it is stored on disk: nodes in order, weights, inputs and outputs. The wire
// format is protocol buffers (onnx.proto). The numbers of types and of operator versions are
// explained in docs/IR.md and docs/Operators.md of github.com/onnx/onnx.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::architectures {

using OnnxDims = std::vector<std::int64_t>;

// The values of TensorProto.DataType that can be read.
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

// An initializer, or the value of an attribute. Its elements are the little-endian bytes `raw`, or
// are stored in a file next to the model.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::f32;
  OnnxDims dims;
  std::string raw;
  // A path. If it is "", the elements are in `raw`.
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
  // The node's path in PyTorch, as far as the exporter gives it: "model.layers.0.mlp".
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

// Reads a file. Throws an InputError `path: what is wrong` for every fault: not a file, not an ONNX
// file, truncated, an operator set outside of 13 to 25, operators of other domains, an unknown
// type, data of another length than the shape needs, or weights in a file that is missing.
OnnxFile read_onnx_file(const std::string& path);

// Returns the elements as fp64, which is exact for fp32 and for integers up to 2^53. Throws an
// InputError if a file ends before the last element.
std::vector<double> values_of(const OnnxFile& file, const OnnxTensor& tensor);

// Returns whether two matrices have the same elements, bit by bit. With `transposed`, b is the
// transpose of a.
bool have_equal_elements(const OnnxFile& file, const OnnxTensor& a, const OnnxTensor& b,
                         bool transposed);

}  // namespace meshwright::architectures
