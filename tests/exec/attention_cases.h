// Attention on the device under test beside the CPU backend in double precision.
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

// Relative to the largest number. A token alone has no gradient of its score but for rounding.
void compare(std::string_view what, const Tensors& found, const Tensors& expected, Dtype dtype);

// One sequence or two, two heads of keys at most.
struct AttentionShapes {
  int length, head_dim, heads, kv_heads;
  Packing packing;
  bool causal;
};
Case attention_case(const AttentionShapes& shapes, Attributes a);

// Both directions.
void check_attention(const Case& c, Dtype dtype);
void check_attention(const Case& c, Dtype dtype, TableBackend& tables);

}  // namespace meshwright::tests
