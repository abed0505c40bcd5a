// Describes packed sequences. A sequence of sequence_length tokens holds several documents, and
// each token attends to its own document only. The documents tensor, i32 [rows], holds for each
// token the index in its sequence at which its document begins.
//
// A query at index i of a document that begins at index b has position i - b. Under a causal mask
// it attends to the keys at b to i, otherwise to all keys of its document. Padding belongs to
// documents of its own, which have no targets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright::program {

// Returns whether the operation reads the documents tensor if its attribute `documents` is set. The
// attribute has no meaning for all other operations.
constexpr bool counts_in_documents(Op op) {
  switch (op) {
    case Op::attention:
    case Op::attention_grad:
    case Op::context_attention:
    case Op::context_attention_grad:
    case Op::mask_scores:
    case Op::rope:
    case Op::rope_grad:
    case Op::add_position:
    case Op::add_position_grad:
      return true;
    default:
      return false;
  }
}

// Returns the number of inputs of `call` without the documents tensor. Kernels find out with it
// whether optional inputs are present.
inline std::size_t inputs_but_documents(const OpCall& call) {
  return call.inputs.size() - (call.attributes.documents ? 1 : 0);
}

// Returns whether `type` is that of a documents tensor for `rows` tokens: i32 of shape [rows].
inline bool is_documents(const TensorType& type, std::int64_t rows) {
  return type.dtype == Dtype::i32 && type.shape.rank == 1 && type.shape[0] == rows;
}

// Returns the expected share, in (0, 1], of causal attention scores that lie within documents when
// a row holds `documents` of them (a mean, at least 1). The formula assumes that a row of length s
// is cut at n - 1 uniformly random places, where n is `documents`. A piece then has a mean squared
// length of 2 s^2 / (n (n + 1)), so the sum over all n pieces is 2 / (n + 1) of s^2.
constexpr double document_share(double documents) { return 2 / (documents + 1); }
constexpr double documents_of_share(double share) { return 2 / share - 1; }

}  // namespace meshwright::program
