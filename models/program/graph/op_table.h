// Declares the table of operations. Each operation has a row, in its family's file in
// models/program/graph/ops/. The row has the facts about the operation that do not depend on a
// device, among them its FLOPs and the bytes that it moves.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/program/graph/op_call.h"

namespace meshwright::program {

// The work of one device kernel. Matrix products are `batch` times [m,k] * [k,n]. `bytes` is the
// traffic to and from memory.
struct Kernel {
  enum class Kind : std::uint8_t { gemm, batched_gemm, attention, memory };
  Kind kind = Kind::memory;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double flops = 0;
  double bytes = 0;
  double gelus = 0;              // number of GELUs that a memory-bound kernel computes
  bool joins_neighbour = false;  // only additional traffic of another kernel, without a launch
  bool backward = false;         // it is the backward pass of fused attention
  bool quantized = false;        // a product whose factors are quantized
  // Set for matmuls and attention of captured models in another precision than the model's
  // (autocast).
  std::optional<Precision> precision = {};
  constexpr bool operator==(const Kernel&) const = default;
};

// The communication of an operand between ranks, and the group of ranks that take part. Lowering
// makes a collective of it.
struct Communication {
  enum class Over : std::uint8_t { nobody, tensor, context, expert };  // ranks of one such group
  enum class What : std::uint8_t { sum, maximum, gather, scatter, shift, exchange };
  Over over = Over::nobody;
  What what = What::sum;
  constexpr explicit operator bool() const { return over != Over::nobody; }
};

// Kinds of operations by the additional bytes that frameworks move for them (masks, casts,
// layouts). Predictions multiply the bytes of an operation by a factor for its kind.
enum class Traffic : std::uint8_t { elementwise, scores, loss, quantized };

// Says how tensor parallelism cuts an operation. models/compiler/passes/split/split_tensors.cpp
// applies the rule.
enum class SplitRule : std::uint8_t {
  rows,        // works row by row on whole rows: replicated, or on a share of the rows
  linear,      // cut as its parameter: by columns, by rows or not at all
  heads,       // works on this rank's heads
  elements,    // works element by element on whatever share it is given
  vocabulary,  // cut by the vocabulary (embedding, cross-entropy)
  whole,       // needs the whole tensor on every rank
  experts,     // every rank has all tokens, and a share of the columns of every expert's MLP
  first,       // makes whole sequences on every rank, which then takes its share of the rows
  none         // made by a pass; never split
};

// Says whether an operation can be run on some of its rows at a time
// (models/program/graph/fusion.h). Its inferred outputs are then cut by rows, and its parameter
// gradients are sums over the rows.
struct RowRule {
  std::uint32_t inputs = 0;  // bit i: input i is cut by rows, the others are needed whole; 0: the
                             // operation cannot be run on some rows
  bool product = false;      // runs on all threads at once, which pays for long blocks only
  bool counts_positions = false;  // depends on the positions of the rows
  bool epilogue = false;          // element by element: a product can do it to its output
  constexpr explicit operator bool() const { return inputs != 0; }
};

// Says how a device that computes in fp32 only (a CPU) runs an operation on 16-bit operands
// (models/program/graph/widen.h).
struct WidenRule {
  enum class How : std::uint8_t {
    whole,      // all operands are widened at once
    rows,       // cut operands are widened some rows at a time; the others whole
    sequences,  // some whole sequences at a time
    product,    // a matrix product, block by block
    expert_product,
    moves,        // nothing is widened: the operation only moves elements
    by_optimizer  // nothing is widened: the optimizer runs the operation
  };
  How how = How::whole;
  std::uint32_t inputs = 0, outputs = 0;  // bit i: operand i is cut
  bool counts_positions = false;  // depends on where rows begin, so a share of them is not cut
};

// The least and the largest number of inputs, or of outputs, of an operation.
struct Count {
  static constexpr int any = std::numeric_limits<int>::max();
  int least, most;
  constexpr Count(int number) : least(number), most(number) {}
  constexpr Count(int low, int high) : least(low), most(high) {}
  constexpr bool has(std::size_t number) const {
    return number >= static_cast<std::size_t>(least) && number <= static_cast<std::size_t>(most);
  }
};

class Gradients;
struct Node;

// The row of one operation in the table.
struct OpInfo {
  Op op;
  std::string_view name;
  Count takes = 1;  // number of inputs, including the loss scale
  Count makes = 1;  // number of outputs, including parameter gradients
  SplitRule split = SplitRule::none;
  Communication communication = {};
  // Appends the types of the outputs, given the attributes and the types of the inputs. Leaves out
  // parameter gradients, which come last, because they have their parameter's shape. A wrong input
  // fails a MESHWRIGHT_CHECK.
  void (*infer)(const Attributes&, std::span<const TensorType>, std::vector<TensorType>&);
  // Appends the kernels that a GPU at this compiler level runs for the operation.
  void (*work)(const OpCall&, CompilerLevel, std::vector<Kernel>&);
  Traffic traffic = Traffic::elementwise;
  // Returns the model FLOPs, which MFU is computed from. nullptr means that there are none.
  double (*model_flops)(const OpCall&) = nullptr;
  // Appends the nodes that compute the inputs' gradients from `dy`, that of the first output.
  // nullptr means that no gradient is ever asked for.
  void (*differentiate)(Gradients&, const Node&, int dy) = nullptr;
  bool begins_backward = false;   // differentiated without a gradient of its output (dy = -1)
  bool takes_loss_scale = false;  // a gradient of a loss: in fp16, lowering appends the loss scale
                                  // to its inputs, by which it is multiplied
  RowRule rows = {};
  WidenRule widening = {};
  // Expressions in C, one for each output, for devices that compile their kernels. An expression
  // computes one element of its output: $i is the element of input i, $factor the attribute, $gelu
  // is gelu_tanh or gelu_erf, and $gelu_slope their slope. It may call CUDA's functions of fp32
  // numbers and those of exec/backends/cuda/device/prelude.cuh.
  std::array<std::string_view, 2> elements{};
  bool in_place = false;  // element i of the first output depends on element i of the operands
                          // only, and is written last
  // In a backward pass: whether the operation makes the gradient of a product's input, or moves it.
  // A collective that waits for it may then overlap with gradients of weights
  // (models/compiler/passes/split/overlap_tensor.h).
  bool makes_input_gradient = false;
  // Whether the operation makes score matrices, if attention is not fused, or reads them for a
  // gradient. Selective recomputation repeats these operations.
  bool of_scores = false;
  // Whether the operation can overwrite parameter gradients instead of adding to them
  // (OpCall::overwrites), because each of its calls reaches every element of them.
  bool overwrites_sums = false;
  // Whether frameworks have one kernel that does this operation and also rounds its output to 8
  // bits, or finds its largest element.
  bool makes_8_bits = false;
};

const OpInfo& info(Op op);
std::span<const OpInfo> op_table();  // in the order of the enumerators

void append_kernels(const OpCall& call, CompilerLevel level, std::vector<Kernel>& kernels);

// Returns the model FLOPs of a forward operation, which MFU is computed from: those of its matrix
// products. Attention is not halved for the mask.
double model_flops(const OpCall& call);

// The work of one optimizer step over `elements` parameters.
struct OptimizerWork {
  std::int64_t elements = 0;
  int moments = 2;             // per element, such as 2 for Adam and 1 for SGD with momentum
  Dtype weights = Dtype::f32;  // storage of the working copy
  Dtype gradients = Dtype::f32;
  std::optional<Dtype> master;  // unset: the weights are their own masters
  Dtype moment = Dtype::f32;
  bool moments_are_ready = false;  // earlier kernels have updated the moments
  bool average = false;            // it keeps an average of the weights, in fp32 or fp64
  bool reads_gradients = false;    // adafactor: gradients are read again although moments are ready
};
void append_optimizer_kernels(const OptimizerWork& work, CompilerLevel level,
                              std::vector<Kernel>& kernels);

}  // namespace meshwright::program
