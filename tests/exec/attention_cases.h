// Compares attention on the device under test with the CPU backend in double precision.
#pragma once

#include <string_view>
#include <vector>

#include "tests/exec/op_cases.h"
#include "tests/exec/table_backend.h"

namespace meshwright::tests {

using Tensors = std::vector<OpTensor>;

OpTensor in_type(const OpTensor& tensor, Dtype dtype);
Tensors in_type(const Tensors& tensors, Dtype dtype);
const char* name_of(Dtype dtype);

// Compares tensors relative to the largest number. A single token has no gradient of its score
// except for rounding errors.
void compare(std::string_view what, const Tensors& found, const Tensors& expected, Dtype dtype);

// The sizes of an attention, which has at most two sequences and two heads of keys.
struct AttentionShapes {
  int length, head_dim, heads, kv_heads;
  Packing packing;
  bool causal;
};
Case attention_case(const AttentionShapes& shapes, Attributes a);

// Compares the forward and the backward pass of a case.
void check_attention(const Case& c, Dtype dtype);
void check_attention(const Case& c, Dtype dtype, TableBackend& tables);

}  // namespace meshwright::tests
