// How a device that computes in fp32 only (a CPU) works on operands stored in 16 bits, and on a
// product's factors in 8: piece by piece, each widened to fp32 in scratch memory, computed, and
// rounded to 16 bits again. Where an operation is cut, and how much scratch memory that takes, is
// decided here alone: the simulator plans the memory that the engine allocates.
#pragma once

#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright {

bool has_16_bit(const OpCall& call);

// The matrix product that a linear layer or one of its gradients is:
// c[m,n] (+)= op(inputs[a])[m,k] op(inputs[b])[k,n].
struct LinearProduct {
  std::int64_t m = 0, n = 0, k = 0;
  std::size_t a = 0, b = 1;
  bool transpose_a = false, transpose_b = false;
  bool adds = false;
};
bool is_product(Op op);
LinearProduct product_of(const OpCall& call);

// The blocks in which a product is widened: at most m * k of a, k * n of b, m * n of c.
struct ProductBlocks {
  std::int64_t m = 0, n = 0, k = 0;
};
ProductBlocks blocks_of(const LinearProduct& product);

// The pieces of any other operation: `units` rows or whole sequences, `per_piece` at a time, of
// the operands whose bit is set, along their first dimension; the others are widened whole, once.
struct Pieces {
  std::uint32_t inputs = 0, outputs = 0;
  std::int64_t units = 1, per_piece = 1;
  bool sequences = false;  // a unit is a sequence: a piece is a smaller micro-batch
};
Pieces pieces_of(const OpCall& call);

// Whether the operation only moves elements: nothing is widened.
bool only_moves(Op op);

// Scratch memory of an operation; 0 where no operand has 16 bits and no factor 8.
std::int64_t widened_bytes(const OpCall& call);
// Traffic of the conversions, beside that of the kernels: 6 bytes for each element that is widened
// or rounded.
double conversion_bytes(const OpCall& call);
constexpr std::int64_t widened_alignment = 64;
std::int64_t widened_bytes_of(std::int64_t elements);  // one operand or a part of it, aligned

}  // namespace meshwright
