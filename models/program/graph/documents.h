// Packed sequences: a row of sequence_length tokens holds several documents, one behind the other.
// Where they begin is data, not shape: an i32 tensor [rows] has of each token the place in its
// sequence at which its document begins. A query at place i of a document that begins at b stands
// at position i - b. It sees the keys of its document: under a causal mask those at b to i, else
// all whose documents begin at b too. What fills a sequence up is a document of its own, without
// targets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright {

// Operations that count places in documents; to all others the attribute means nothing.
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

// The inputs of an operation, without its documents.
inline std::size_t inputs_but_documents(const OpCall& call) {
  return call.inputs.size() - (call.attributes.documents ? 1 : 0);
}

// Rows of as many tokens.
inline bool is_documents(const TensorType& type, std::int64_t rows) {
  return type.dtype == Dtype::i32 && type.shape.rank == 1 && type.shape[0] == rows;
}

// Of the scores of whole rows under a causal mask, those that rows have which `documents` share:
// as if a row of length s were cut at documents - 1 places, each as likely as any other. A piece
// between n - 1 such cuts has a mean squared length of 2 s^2 / (n (n + 1)), and there are n.
constexpr double document_share(double documents) { return 2 / (documents + 1); }
constexpr double documents_of_share(double share) { return 2 / share - 1; }

}  // namespace meshwright
