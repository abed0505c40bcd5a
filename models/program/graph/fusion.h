// Describes a fusion: one operation made of several. Its body is a short list of operations, called
// steps. In most fusions it runs on a block of rows at a time, so that the tensors between the
// steps are never whole in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/graph/graph.h"
#include "models/program/graph/op_call.h"

namespace meshwright::program {

struct FusedStep {
  Op op = Op::add;
  Attributes attributes;
  TensorIds inputs, outputs;  // numbers of operands of the fusion
  bool operator==(const FusedStep&) const = default;
};

struct Fusion {
  // Types, with all rows, of the node's inputs, its inferred outputs, the parameter gradients that
  // it adds to, and the tensors that steps pass to each other, in this order.
  std::vector<TensorType> operands;
  std::vector<char> cut;  // per operand: whether a block has only its own rows of it
  int inputs = 0, outputs = 0, accumulated = 0;
  std::vector<FusedStep> steps;
  std::int64_t rows = 0, block_rows = 0;
  enum class Loop : std::uint8_t {
    blocks,         // rows are cut into blocks that fit into a cache, and one thread runs all steps
                    // of a block
    long_blocks,    // blocks run one after the other, and all threads share each step. Tensors that
                    // steps pass to each other lie in the memory of the last inferred output
    product_first,  // the first step, a matmul, runs on all rows at once; the other steps, its
                    // epilogue, run as in `blocks`
    products        // every step is a matmul on all rows, and a device may run them as one matmul
  };
  Loop loop = Loop::blocks;
  // product_first: the operand whose value the matmul's result is added to. -1 if there is none.
  int start = -1;

  int first_internal() const { return inputs + outputs + accumulated; }
  bool is_internal(int operand) const { return operand >= first_internal(); }
  bool is_sum(int operand) const {
    return operand >= inputs + outputs && operand < first_internal();
  }
  TensorType of_block(int operand, std::int64_t block) const;  // with `block` rows
  std::int64_t internal_bytes(std::int64_t block) const;       // of the tensors between steps
  bool operator==(const Fusion&) const = default;
};

// Returns the bits of OpCall::overwrites for step `step` of a fusion, given those of the fusion. A
// step overwrites an output only if no earlier step adds to it.
std::uint32_t overwrites_of_step(const Fusion& fusion, std::size_t step, std::uint32_t of_fusion);

// Returns the number of strips of rows in which threads sum parameter gradients. It does not depend
// on the number of threads, so that the sums do not either.
int fused_strips(const Fusion& fusion);

// Returns the bytes of scratch memory that a CPU needs to run the operation, in addition to its
// operands: sums of strips, and widened copies of 16-bit operands (models/program/graph/widen.h).
// A thread that runs a block alone has the block's memory (fused_block_bytes) on its stack instead.
std::int64_t scratch_bytes(const OpCall& call);

constexpr std::int64_t fused_alignment = 64;
// Returns the bytes that a block of `block` rows needs in addition to the fusion's inputs and
// outputs. Passes choose blocks of Loop::blocks for which this is at most fused_block_bytes.
std::int64_t block_bytes(const Fusion& fusion, std::int64_t block);
// The largest size, in bytes, of the tensors between the steps of such a block together with the
// widened copies of operands.
constexpr std::int64_t fused_block_bytes = 512 << 10;

// Returns a name for messages and dumps: "layer_norm_grad + add".
std::string name_of(const Fusion& fusion);

}  // namespace meshwright::program
