// Decides how a device that computes in fp32 only (a CPU) works on operands of 16 bits, and on
// factors of matrix multiplications in 8 or 4 bits: piece by piece. Each piece is widened to fp32
// in scratch memory and computed, and 16-bit results are rounded again. The simulator plans this
// scratch memory, and the engine allocates it.
#pragma once

#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright::program {

bool has_16_bit(const OpCall& call);

// The matrix product that a linear layer or one of its gradients is:
// c[m,n] (+)= op(inputs[a])[m,k] op(inputs[b])[k,n], where op transposes or not, and (+) adds if
// `adds`.
struct LinearProduct {
  std::int64_t m = 0, n = 0, k = 0;
  std::size_t a = 0, b = 1;
  bool transpose_a = false, transpose_b = false;
  bool adds = false;
};
bool is_product(Op op);
LinearProduct product_of(const OpCall& call);

// The sizes of the blocks in which the operands of a matmul are widened: at most m * k elements of
// a, k * n elements of b, and m * n elements of c.
struct ProductBlocks {
  std::int64_t m = 0, n = 0, k = 0;
};
ProductBlocks blocks_of(const LinearProduct& product);

// The pieces in which an operation other than a matmul runs. An operand whose bit is set is cut
// along its first dimension into `units` rows or whole sequences, of which a piece has at most
// `per_piece`. The other operands are widened once, whole.
struct Pieces {
  std::uint32_t inputs = 0, outputs = 0;
  std::int64_t units = 1, per_piece = 1;
  bool sequences = false;  // a unit is a sequence: a piece is a smaller micro-batch
};
Pieces pieces_of(const OpCall& call);

// Returns whether the operation only moves elements, so that nothing is widened.
bool only_moves(Op op);

// Returns the bytes of scratch memory in which an operation widens its operands. Returns 0 if it
// widens nothing.
std::int64_t widened_bytes(const OpCall& call);
// Returns the bytes that conversions move in addition to the operation's kernels: 6 each time that
// an element is widened or rounded.
double conversion_bytes(const OpCall& call);
constexpr std::int64_t widened_alignment = 64;
std::int64_t widened_bytes_of(std::int64_t elements);  // in fp32, aligned

}  // namespace meshwright::program
