// The table of operations. All facts about an operation, except its kernels, are in its row, in its
// family's file in models/program/graph/ops/. FLOPs and bytes are computed there and nowhere else.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/program/graph/op_call.h"

namespace meshwright {

// One device kernel. Products: batch * [m,k]*[k,n]. `bytes` is the traffic to and from memory.
struct Kernel {
  enum class Kind : std::uint8_t { gemm, batched_gemm, attention, memory };
  Kind kind = Kind::memory;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double flops = 0;
  double bytes = 0;
  double gelus = 0;              // that a memory-bound kernel computes for each element
  bool joins_neighbour = false;  // traffic that a neighbouring kernel adds to its own: no launch
  bool backward = false;         // of fused attention
  bool quantized = false;        // a product whose factors are
  constexpr bool operator==(const Kernel&) const = default;
};

// Communication of an operand between ranks, which is lowered to a collective, and the ranks that
// take part.
struct Communication {
  enum class Over : std::uint8_t { nobody, tensor, context, expert };  // ranks of one such group
  enum class What : std::uint8_t { sum, maximum, gather, scatter, shift, exchange };
  Over over = Over::nobody;
  What what = What::sum;
  constexpr explicit operator bool() const { return over != Over::nobody; }
};

// Frameworks move more bytes than an operation does (masks, casts, layouts): how many more is one
// number for each of these.
enum class Traffic : std::uint8_t { elementwise, scores, loss, quantized };

// How tensor parallelism cuts an operation (models/compiler/passes/split/split_tensors.cpp acts on
// it).
enum class SplitRule : std::uint8_t {
  rows,        // works row by row on whole rows: replicated, or on a share of the rows
  linear,      // by the parameter's cut: columns, rows or not at all
  heads,       // works on this rank's heads
  elements,    // works element by element on whatever share it is given
  vocabulary,  // embedding, cross-entropy: by the vocabulary
  whole,       // needs the whole tensor on every rank
  experts,     // every rank has all tokens, and of each expert the columns of an MLP
  first,       // makes whole sequences on every rank, which then takes its share of the rows
  none         // made by a pass; never split
};

// Whether an operation can be run on some of its rows at a time (models/program/graph/fusion.h).
// Inferred outputs are cut by rows; parameter gradients are sums over the rows.
struct RowRule {
  std::uint32_t inputs = 0;  // bit i: input i is cut by rows, the others are needed whole; none:
                             // the operation looks at several rows at once
  bool product = false;      // runs on all threads at once, worth it for long blocks only
  bool counts_positions = false;  // needs to know which rows these are
  bool epilogue = false;          // element by element: a product can do it to its output
  constexpr explicit operator bool() const { return inputs != 0; }
};

// How a device that computes in fp32 only works on 16 bits (models/program/graph/widen.h).
struct WidenRule {
  enum class How : std::uint8_t {
    whole,      // all operands, once
    rows,       // some rows of those that are cut at a time; the others whole
    sequences,  // some whole sequences
    product,    // block by block
    expert_product,
    moves,        // not at all: it only moves elements
    by_optimizer  // not at all: the optimizer does it
  };
  How how = How::whole;
  std::uint32_t inputs = 0, outputs = 0;  // bit i: operand i is cut
  bool counts_positions = false;          // a share of the rows is not cut: where it begins matters
};

// Number of operands of an operation, some of which are optional.
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

// A row of the table.
struct OpInfo {
  Op op;
  std::string_view name;
  Count takes = 1;  // inputs, with the loss scale
  Count makes = 1;  // outputs, with the parameter gradients
  SplitRule split = SplitRule::none;
  bool is_gradient = false;  // belongs to the backward pass
  Communication communication = {};
  // Types of the outputs from input types and attributes; parameter gradients, which come last, are
  // not among them (they have their parameter's shape). A wrong input is a MESHWRIGHT_CHECK.
  void (*infer)(const Attributes&, std::span<const TensorType>, std::vector<TensorType>&);
  // Appends the kernels that a GPU at this compiler level runs for the operation.
  void (*work)(const OpCall&, CompilerLevel, std::vector<Kernel>&);
  Traffic traffic = Traffic::elementwise;
  // Model FLOPs, which MFU is computed from. nullptr means that there are none.
  double (*model_flops)(const OpCall&) = nullptr;
  // Appends what makes the inputs' gradients from that of the first output; nullptr: nothing ever
  // asks for it.
  void (*differentiate)(Gradients&, const Node&, int dy) = nullptr;
  bool begins_backward = false;   // differentiated without a gradient of its output (dy = -1)
  bool takes_loss_scale = false;  // with which gradients a backward pass begins: in fp16 they are
                                  // multiplied by the loss scale, which lowering appends
  RowRule rows = {};
  WidenRule widening = {};
  // Expressions in C, one for each output, for devices that compile their kernels. Each makes one
  // element, where $i is the element of input i, $factor the attribute and $gelu gelu_tanh or
  // gelu_erf, whose slopes are $gelu_slope. It may call CUDA's functions of fp32 numbers and those
  // of exec/backends/cuda/device/prelude.cuh.
  std::array<std::string_view, 2> elements{};
  bool in_place = false;  // element i of the first output needs element i of the operands only, and
                          // is written last
  // In a backward pass: makes the gradient of a product's input, or moves it; a collective that
  // waits for it may go beside gradients of weights
  // (models/compiler/passes/split/overlap_tensor.h).
  bool makes_input_gradient = false;
  // Whether it makes score matrices where attention is not fused, or reads them for a gradient.
  // Selective recomputation repeats these operations.
  bool of_scores = false;
  // It can write the gradients of parameters as well as add to them (OpCall::overwrites): each of
  // its calls reaches every element of them.
  bool overwrites_sums = false;
  // Frameworks have one kernel that makes its output and rounds it to 8 bits, or finds its largest
  // element.
  bool makes_8_bits = false;
};

const OpInfo& info(Op op);
std::span<const OpInfo> op_table();  // in the order of the enumerators

void append_kernels(const OpCall& call, CompilerLevel level, std::vector<Kernel>& kernels);

// Returns the model FLOPs of a forward operation, which MFU is computed from: those of matrix
// products. Attention is not halved for the mask.
double model_flops(const OpCall& call);

// One optimizer step over `elements` parameters.
struct OptimizerWork {
  std::int64_t elements = 0;
  int moments = 2;             // 2 Adam and its kin, 1 SGD with momentum
  Dtype weights = Dtype::f32;  // storage of the working copy
  Dtype gradients = Dtype::f32;
  std::optional<Dtype> master;  // none: the weights are their own
  Dtype moment = Dtype::f32;
  bool moments_are_ready = false;  // lamb: lamb_norms has read the gradients
  bool average = false;            // of the weights, in fp32
  bool reads_gradients = false;    // adafactor: though moments are ready
};
void append_optimizer_kernels(const OptimizerWork& work, CompilerLevel level,
                              std::vector<Kernel>& kernels);

}  // namespace meshwright
