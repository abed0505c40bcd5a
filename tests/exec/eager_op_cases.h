// The part of op_cases.h that is of an eager framework's operations.
#pragma once

#include <span>
#include <vector>

#include "tests/exec/op_cases.h"

namespace meshwright::tests {

struct Sizes {
  int batch, length;            // of sequences
  int width, other;             // of rows; rows of a table
  int in = width, out = other;  // of weights
  int of_attention = batch;     // sequences of it
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
