// Defines the expressions to which an ONNX graph is reduced once its constants are computed and its
// views are resolved. The expressions of a decomposed module (the mean of a layer norm, the scores
// of attention) are replaced by the module's own expression once its last operation is read
// (rules.cpp, attention_rules.cpp).
#pragma once

#include <string>
#include <vector>

#include "models/architectures/onnx/known.h"
#include "models/architectures/onnx/view.h"

namespace meshwright::architectures {

enum class OnnxForm : std::uint8_t {
  // The forms up to add_constant are operations of the graph. Their operands are named beside them.
  tokens,
  embedding,      // tokens, weight
  add_position,   // x, weight; `first`: the row of position 0
  add_row,        // x, weight: its row 0
  layer_norm,     // x, weight, (bias)
  rms_norm,       // x, weight
  linear,         // x, weight, (bias)
  add_bias,       // x, weight
  scale_columns,  // x, weight
  rope,           // x, of which `rotated` is rotated; heads, head_dim, rotary_dim, rotary_base
  attention,      // q, k, v or qkv
  gelu,           // x; is_tanh
  relu,
  tanh,
  silu,
  swiglu,  // gate, up
  add,
  multiply,
  scale,         // number * x
  add_constant,  // x + number
  // The forms from here on are parts of modules that an exporter wrote as several operations.
  mean,      // of the last dimension
  subtract,  // a, b
  divide,    // a, b
  power,     // x ^ number
  root,      // sqrt(x)
  inverse,   // number / x
  erf,
  sigmoid,
  negate,
  normalized,      // (x - mean) / sqrt(variance + number)
  rms_normalized,  // x / sqrt(mean of squares + number)
  times_known,     // x, a known tensor
  joined,          // Concat along the last dimension
  product,         // of two matrices that are both computed
  masked,          // scores; causal, window
  softmax,
};

// Describes the value of a name in the graph: a known tensor, a weight (whose elements are read on
// demand), or a view of an expression.
struct OnnxValue {
  OnnxDims dims;
  KnownKind kind = KnownKind::real;
  KnownPtr known;
  int weight = -1;          // index into OnnxFile::weights; -1: no weight
  bool transposed = false;  // the weight's two dimensions are swapped
  bool one_plus = false;    // the value is 1 + the weight, which is a vector
  std::string weight_name;  // parameter name: of the initializer, or an Identity
  // If `rows_of` is not -1, the value shows rows of that weight with known indices: from
  // `first_row` on one after the other if `rows_run` is set, otherwise always `first_row`.
  int rows_of = -1;
  std::int64_t first_row = 0;
  bool rows_run = false;
  int expression = -1;
  OnnxView view;
  bool is_traced() const { return expression >= 0; }
  bool is_weight() const { return weight >= 0; }
};

struct OnnxExpression {
  OnnxForm form = OnnxForm::tokens;
  int node = -1;  // index into OnnxFile::nodes
  std::vector<OnnxValue> inputs;
  OnnxDims dims;
  double number = 0;
  std::int64_t first = 0;
  int heads = 0, kv_heads = 0, head_dim = 0, window = 0, rotary_dim = 0;
  double rotary_base = 0;
  OnnxView rotated;      // rope: the columns that are rotated; no dimensions: by packing
  bool is_part = false;  // rope: `rotated` are not the first columns of each head of a matrix
  bool is_tanh = false, causal = false, scaled = true, one_plus = false;
  int packing = 0;  // attention of one input, and its rope: a Packing
};

}  // namespace meshwright::architectures
