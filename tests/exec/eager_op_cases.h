// The cases of op_cases.h for the operations of an eager framework.
#pragma once

#include <span>
#include <vector>

#include "tests/exec/op_cases.h"

namespace meshwright::tests {

struct Sizes {
  int batch, length;            // number and length of sequences
  int width, other;             // columns; rows of a table
  int in = width, out = other;  // sizes of weights
  int of_attention = batch;     // number of sequences
};

inline Attributes sequences(int batch, int length) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  return a;
}

inline const char* name_of(Packing packing) {
  return packing == Packing::separate       ? "separate"
         : packing == Packing::concatenated ? "concatenated"
                                            : "per_head";
}

void add_eager_cases(std::vector<Case>& cases, const Sizes& sizes, int head_dim);
std::span<const OpRule> eager_rules();

}  // namespace meshwright::tests
