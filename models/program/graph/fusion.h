// One operation made of several: a short body of operations of the table that runs on a block of
// rows at a time, so that what they pass to each other never lies in memory whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/graph/graph.h"
#include "models/program/graph/op_call.h"

namespace meshwright {

struct FusedStep {
  Op op = Op::add;
  Attributes attributes;
  TensorIds inputs, outputs;  // numbers of operands of the fusion
  bool operator==(const FusedStep&) const = default;
};

struct Fusion {
  // The node's inputs, its inferred outputs, the parameter gradients it adds to, and what steps
  // pass to each other; with all rows.
  std::vector<TensorType> operands;
  std::vector<char> cut;  // per operand: by rows
  int inputs = 0, outputs = 0, accumulated = 0;
  std::vector<FusedStep> steps;
  std::int64_t rows = 0, block_rows = 0;
  enum class Loop : std::uint8_t {
    blocks,       // short ones, that fit into a cache: one thread runs all steps of a block
    long_blocks,  // one after the other, each step on all threads; the last inferred output is the
                  // memory for what steps pass to each other
    product_first,  // the first step on all rows at once; the others, its epilogue, in short blocks
    products        // every step is a product on all rows, and a device runs them as one
  };
  Loop loop = Loop::blocks;
  // product_first: what its output is before the product is added to it; -1: nothing.
  int start = -1;

  int first_internal() const { return inputs + outputs + accumulated; }
  bool is_internal(int operand) const { return operand >= first_internal(); }
  bool is_sum(int operand) const {
    return operand >= inputs + outputs && operand < first_internal();
  }
  TensorType of_block(int operand, std::int64_t block) const;  // its type with `block` rows
  std::int64_t internal_bytes(std::int64_t block) const;       // of one block, each aligned
  bool operator==(const Fusion&) const = default;
};

// Returns the bits of OpCall::overwrites for step `step` of a fusion, given those of the fusion. A
// step overwrites only what no step before it adds to.
std::uint32_t overwrites_of_step(const Fusion& fusion, std::size_t step, std::uint32_t of_fusion);

// Returns the number of strips of rows in which threads add up gradients of parameters. It does not
// depend on the number of threads.
int fused_strips(const Fusion& fusion);

// Scratch memory that a device needs to run the operation beside what is in its operands: sums of
// strips, and operands of 16 bits while they are widened (models/program/graph/widen.h).
std::int64_t scratch_bytes(const OpCall& call);

constexpr std::int64_t fused_alignment = 64;
// Returns the bytes that a short block of `block` rows needs in addition to its operands, at most
// fused_block_bytes.
std::int64_t block_bytes(const Fusion& fusion, std::int64_t block);
// Largest size, in bytes, of what the steps of a short block pass to each other and of the copies
// of it that are widened.
constexpr std::int64_t fused_block_bytes = 512 << 10;

// Returns a name for texts: "layer_norm_grad + add".
std::string name_of(const Fusion& fusion);

}  // namespace meshwright
