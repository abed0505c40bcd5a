// The closed list of operations: what each one needs and makes. All that is known of one is its row
// of the table, in its family's file in models/graph/ops/; FLOPs and bytes are computed there and
// nowhere else.
//
// Activations are matrices [rows, width]; rows = micro_batch * sequence_length tokens, sequence by
// sequence (sequence parallelism gives each rank a contiguous share of the rows).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "models/core/dtype.h"

namespace meshwright {

enum class Op : std::uint8_t {
  // forward: inputs -> outputs. s = sequence_length, b = micro_batch, rows = b*s, h = hidden.
  embedding,     // tokens[rows] i32, table[V,h] -> [rows,h]; vocabulary_parallel: other ranks' rows
                 // give 0
  add_position,  // x[rows,h], table[P,h] -> [rows,h]; row r gets table[r mod s + position_offset]
  add_row,       // x[rows,h], table[N,h] -> [rows,h]; every row gets table[0] (BERT's token type 0)
  layer_norm,    // x[rows,h], weight[h], (bias[h]) -> y[rows,h], saved[rows,2] f32 (mean, 1/std)
  rms_norm,      // x[rows,h], weight[h] -> y[rows,h], saved[rows,1] f32 (1/rms)
  linear,     // x[rows,in], W, (bias[out]) -> [rows,out]; W[out,in], or [in,out] when weight_in_out
  add_bias,   // x[rows,n], bias[n] -> [rows,n]
  rope,       // x -> x with queries and keys rotated (attributes: packing, rotary_dim, ...)
  attention,  // qkv, or q, k, v, (table[relative_buckets,heads]: relative.h) ->
              // y[rows,heads*head_dim], saved f32: see attention_kernel
  gelu,       // x -> gelu(x): tanh form when gelu_tanh, else erf
  relu,       // x -> max(x, 0)
  tanh,       // x -> tanh(x)
  swiglu,     // gate[rows,n], up[rows,n] -> silu(gate)*up
  add,        // a, b -> a + b
  dropout,    // x -> x, elements set to 0 with probability `dropout`, the others / (1 - dropout);
              // which ones: Philox of (dropout_key, sequence, place in the sequence, column)
  select_positions,  // x[rows,h], positions[b,p] i32 -> [b*p,h] (rows that a masked model predicts)
  cross_entropy,     // logits[n,V], targets[n] i32 -> loss[n] f32, saved[n] f32 (log-sum-exp)
  cross_entropy_stats,  // logits[n,V/T], targets[n] -> stats[3,n] f32 (maximum, sum of exp, target
                        // logit)
  cross_entropy_combine,  // stats of all T ranks [T*3,n] -> loss[n], saved[n]
  span_loss,  // logits[rows,2], targets[b,2] i32 -> loss[2*b] f32, saved[2*b] f32 (question
              // answering)
  // tensor parallelism: a communication in one direction, its conjugate in the gradient
  tensor_copy,       // x -> x; its gradient is summed over the tensor group
  tensor_reduce,     // x -> sum over the tensor group; its gradient is passed on
  sequence_gather,   // [rows/T,h] -> [rows,h]; gradient: sequence_scatter
  sequence_scatter,  // [rows,h] -> sum over the group, own share [rows/T,h]; gradient:
                     // sequence_gather
  sequence_slice,    // [rows,h] replicated -> own share [rows/T,h], no communication; gradient:
                     // sequence_gather
  stats_gather,      // [k,n] -> [T*k,n]
  // context parallelism: every rank of a group of C has its tokens of each sequence (context.h)
  context_pack,       // qkv, or k, v -> kv[rows, 2*kv_heads*head_dim]: all keys, then all values
  context_shift,      // x -> x of the rank before, in the ring of the context group
  context_gather,     // [rows,n] -> [C*rows,n]: those of all ranks, in order
  context_attention,  // q or qkv, kv, (y, saved) -> y, saved: adds what attending to the kv of the
                      // rank `ring_step` before gives (of all, < 0) to what earlier steps gave
  // rows of which every rank has a share of the columns (tensor layout `memory`); w = own columns
  norm_stats,  // x[rows,w] -> [2,rows] f32: mean of own columns, sum of (x - mean)^2
  norm_parts,  // x[rows,w], weight[w], (bias[w]), stats of all ranks [T*2,rows] -> y, and saved
               // as layer_norm's, or with `rms_norm` as rms_norm's
  columns_to_parts,  // [rows,c] -> [T*rows,c/T]: the columns of rank 0 for all rows, of rank 1, ...
                     // (of every one of `segments` a T-th); gradient: parts_to_columns
  parts_to_columns,  // the inverse; gradient: columns_to_parts
  // experts: each token chooses k of E (models/graph/experts.h); C slots of each for every sequence
  route,     // logits[rows,E] -> weights[rows,k] f32, slots[rows,k] i32, balance[b] f32
  dispatch,  // x[rows,h], slots -> [E*b*C,h]: tokens in their slots, expert by expert; else 0
  expert_exchange,  // [E*b*C,n] -> the rows of the experts of rank j to rank j of the expert group,
                    // or those of rank j's tokens back to it: both are part j; its own gradient
  expert_linear,    // x[E*b*C,in], W[E/P,out,in] -> [E*b*C,out]: E groups of rows, the g-th meets
                    // W[g mod E/P] (P ranks share the experts: groups come from each in turn)
  combine,          // y[E*b*C,h], weights, slots -> [rows,h]: the weighted sum of a token's slots
  // what an eager framework has instead of gelu, swiglu, rms_norm, rope, attention and
  // cross_entropy: one kernel each (models/passes/framework_operations.h). d = head_dim.
  scale,               // x -> factor * x
  add_constant,        // x -> x + factor
  cube,                // x -> x^3
  multiply,            // a, b -> a * b
  silu,                // x -> x * sigmoid(x)
  mean_of_squares,     // x[rows,h] -> [rows,1] f32
  inverse_root,        // x -> 1 / sqrt(x + epsilon)
  scale_rows,          // x[rows,h], r[rows,1] -> r * x
  scale_columns,       // x[rows,h], weight[h] -> x * weight
  rotate_half,         // x -> of each pair (p, q) that rope turns (-q, p); else 0
  times_cosine,        // x -> what rope turns times the cosine of its angle; else x
  times_sine,          // the same with the sine; else 0
  split_heads,         // qkv -> q[b*heads,s,d], k, v[b*kv_heads,s,d]; or separate x[rows,n*d] ->
                       // [b*n,s,d]
  join_heads,          // the inverse
  scores,              // q[b*heads,s,d], k[b*kv_heads,s,d] -> q k^T [b*heads,s,s]
  add_alibi,           // scores -> scores + slope * (key - query)
  mask_scores,         // scores -> scores, of later keys than the query `factor`
  softmax,             // x -> of each row of the last dimension
  drop_probabilities,  // probabilities[b*heads,s,s] -> those that attention leaves, as dropout
  weigh_values,        // w[b*heads,s,s], v[b*kv_heads,s,d] -> w v [b*heads,s,d]
  log_softmax,         // logits[n,V] -> [n,V] f32; 0 in masked columns
  nll_loss,            // log-probabilities[n,V] f32, targets[n] -> loss[n] f32
  // images: a sequence is a class token and, row by row, the square patches of a square image
  image_patches,  // pixels[b,c*side*side] i32 of 0 to 255 -> [b*(s-1),c*patch_size^2] of -1 to 1
                  // (x / 127.5 - 1): a patch's channels, of each its rows
  prepend_row,    // x[b*(s-1),h], row[h] -> [b*s,h]: every sequence begins with the row
  // relative positions, in an eager framework: a kernel of their own
  add_relative_bias,  // scores[b*heads,s,s], table[relative_buckets,heads] -> scores + the table's
                      // row of the bucket of key - query (relative.h)
  // gradients. "(+)" outputs are parameter gradients and are added to.
  embedding_grad,          // tokens, dy -> (+)table
  add_position_grad,       // dy -> (+)table
  add_row_grad,            // dy -> (+)table
  layer_norm_grad,         // x, weight, saved, dy -> dx, (+)weight, (+)bias
  rms_norm_grad,           // x, weight, saved, dy -> dx, (+)weight
  linear_grad_input,       // dy, W -> dx
  linear_grad_weight,      // x, dy -> (+)W
  bias_grad,               // dy -> (+)bias
  rope_grad,               // dy -> dx (the inverse rotation)
  attention_grad,          // qkv or q, k, v, y, saved, dy, (table) -> dqkv or dq, dk, dv, (+)table
  context_attention_grad,  // q or qkv, kv, y, saved, dy, (dq) -> dq (with that of earlier steps),
                           // dkv
  context_scatter,         // [C*rows,n] -> sum over the ranks, own part [rows,n]
  context_unpack,          // dq, dkv -> dqkv; or dkv -> dk, dv
  gelu_grad,               // x, dy -> dx
  relu_grad,               // x, dy -> dx
  tanh_grad,               // y, dy -> dx
  swiglu_grad,             // gate, up, dy -> dgate, dup
  dropout_grad,            // dy -> dx, the elements of the forward
  select_positions_grad,   // dy[b*p,h], positions -> dx[rows,h]
  cross_entropy_grad,  // logits, saved, targets, (loss_scale[1] f32) -> dlogits, times `scale` and
                       // loss_scale; vocabulary_parallel: own columns
  span_loss_grad,      // logits, saved, targets, (loss_scale[1] f32) -> dlogits, times both
  norm_parts_sums,  // x, weight, saved, dy -> [2,rows] f32: sums over own columns of g = dy*weight
                    // and of g * normed x; (+)weight, (+)bias
  norm_parts_grad,  // x, weight, saved, dy, those sums of all ranks -> dx
  route_grad,       // logits, slots, dweights, (loss_scale[1] f32) -> dlogits, with what the
                    // balancing loss adds: times `scale` and loss_scale
  dispatch_grad,    // slots, dy[E*b*C,h] -> dx[rows,h]
  expert_linear_grad_input,   // dy, W -> dx
  expert_linear_grad_weight,  // x, dy -> (+)W
  combine_grad,               // y, weights, slots, dy -> dy of the slots [E*b*C,h], dweights
  // made by the training compiler
  fused,  // a body of the operations above, on some rows at a time: see models/graph/fusion.h
  // of the framework's operations; linear ones are their own gradient, or each other's
  cube_grad,             // x, dy -> dx
  silu_grad,             // x, dy -> dx
  mean_of_squares_grad,  // x, dy[rows,1] -> dx
  inverse_root_grad,     // y, dy -> dx
  row_dots,              // x[rows,h], dy[rows,h] -> [rows,1] f32: of scale_rows' r
  scale_columns_grad,    // x, dy -> (+)weight
  rotate_half_grad,      // dy -> dx
  weigh_transposed,      // w[b*heads,s,s], x[b*heads,s,d] -> [b*kv_heads,s,d]: w^T x, summed over
                         // the queries' heads that share a head
  softmax_grad,          // y, dy -> dx
  drop_probabilities_grad,  // dy -> dx
  log_softmax_grad,         // y, dy -> dx in attributes.storage
  nll_loss_grad,     // log-probabilities, targets, (loss_scale[1] f32) -> their gradient f32,
                     // times `scale` and loss_scale
  prepend_row_grad,  // dy -> dx[b*(s-1),h], (+)row
  // relative positions
  relative_bias_grad,  // dscores[b*heads,s,s] -> (+)table
  // the step's bookkeeping
  zero,               // -> every output set to 0
  sum_loss,           // loss[n] f32, sum[1] f64 -> (+)sum: rows added in order in double
  sum_of_squares,     // a flat gradient bucket -> (+)[1] f64 (what the program's bucket counts)
  update_loss_scale,  // squared norm[1] f64 -> (+)the scale's state, loss_scale[1] f32 of the next
                      // step
  lamb_norms,  // a bucket's gradients, masters, squared norm -> (+)moments, (+)squared norms of
               // each
               // parameter and of its update f64
  count_
};

enum class Packing : std::uint8_t {
  separate,      // q, k, v (or a single one) are tensors of their own: [rows, heads*head_dim]
  concatenated,  // [rows, (heads + 2*kv_heads)*head_dim]: all q, all k, all v (GPT-2)
  per_head       // [rows, heads * 3 * head_dim]: q, k, v of a head together (GPT-NeoX, BLOOM)
};

enum class AttentionKernel : std::uint8_t {
  unfused,  // the score matrix is in memory; saved = probabilities [b*heads, s, s] in the storage
            // type
  flash,    // saved = log-sum-exp [b*heads, s] f32
  flash2    // as flash, second generation (faster)
};

// Which kernels exist: one per framework operation, Megatron's hand-fused ones, or the training
// compiler's.
enum class CompilerLevel : std::uint8_t { none, fused, full };

struct Fusion;

struct Attributes {
  int micro_batch = 1;
  int sequence_length = 1;
  int heads = 0;     // on this rank
  int kv_heads = 0;  // on this rank
  int head_dim = 0;
  int rotary_dim = 0;       // 0: no rotation
  int position_offset = 0;  // RoBERTa counts positions from 2
  int tensor_degree = 1;    // ranks over which a vocabulary-parallel or communication op works
  int context_degree = 1;   // ranks that share each sequence; sequence_length is what one holds
  int ring_step = 0;        // context_attention: whose keys and values; -1: those of all ranks
  double rotary_base = 10000;
  double scale = 1;            // gradients: 1 / targets of the global batch
  double factor = 1;           // scale, add_constant, mask_scores
  Dtype storage = Dtype::f32;  // log_softmax: type of the logits
  double epsilon = 1e-5;
  double dropout = 0;             // share that dropout sets to 0; attention: of its probabilities,
                                  // where an element's row is head * sequence length + query
  std::uint64_t dropout_key = 0;  // of the seed and the module's path
  std::int64_t vocabulary = 0;    // unpadded size; columns and rows beyond it are masked
  Packing packing = Packing::separate;
  AttentionKernel attention = AttentionKernel::flash2;
  bool causal = true;
  bool alibi = false;
  int alibi_heads = 0;        // heads of the whole model: the slopes depend on it
  int relative_buckets = 0;   // rows of a table of relative positions, some earlier, some later
                              // unless causal (relative.h); 0: none
  int relative_distance = 0;  // from which on all are in the last bucket
  bool scaled_scores = true;  // attention divides its scores by sqrt(head_dim)
  int window = 0;  // attention, mask_scores: of a query's own key and those before it, how many it
                   // sees; 0: all
  bool weight_in_out = false;
  bool gelu_tanh = false;
  bool rotary_interleaved = false;  // pairs (2i, 2i+1) (GPT-J) instead of (i, i + rotary_dim/2)
  bool vocabulary_parallel = false;
  bool sequence_parallel = false;  // the rows of this op are this rank's share
  bool hidden_share = false;       // dropout: its columns are this rank's share
  bool rms_norm = false;           // norm_parts: the mean is not taken off
  int experts = 0;                 // of the whole model's layer
  int experts_per_token = 0;
  int expert_capacity = 0;                 // slots of each expert for every sequence
  double balance = 0;                      // what a sequence's balancing loss is multiplied by
  std::array<std::int64_t, 3> segments{};  // columns_to_parts: widths (queries, keys, values);
                                           // none: one of all columns
  int patch_size = 0;                      // pixels across a patch
  int channels = 0;                        // of an image
  Dtype made = Dtype::f32;                 // image_patches: the type of its output
  bool gradient_is_whole =
      false;  // sequence_gather: every rank has the whole gradient; slice, don't sum
  bool accumulate_separately =
      false;          // weight gradients: a kernel of its own adds them to the fp32 sum
  bool adds = false;  // linear, linear_grad_input inside a fusion: to what the output holds
  std::shared_ptr<const Fusion> fusion;  // fused: its body

  bool operator==(const Attributes&) const = default;
};

// Patches across a square image: those of a sequence, less the class token, are its square.
int patches_across(const Attributes& attributes);

struct Shape {
  std::array<std::int64_t, 4> dims{};
  int rank = 0;
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> list) {
    for (std::int64_t dim : list) dims[static_cast<std::size_t>(rank++)] = dim;
  }
  constexpr std::int64_t operator[](int i) const {
    return dims[static_cast<std::size_t>(i < 0 ? rank + i : i)];
  }
  constexpr std::int64_t& operator[](int i) {
    return dims[static_cast<std::size_t>(i < 0 ? rank + i : i)];
  }
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[static_cast<std::size_t>(i)];
    return product;
  }
  constexpr bool operator==(const Shape&) const = default;
};

struct TensorType {
  Shape shape;
  Dtype dtype = Dtype::f32;
  constexpr std::int64_t bytes() const { return shape.elements() * bytes_of(dtype); }
  constexpr bool operator==(const TensorType&) const = default;
};

// One operation with the types of its operands: all that its cost and its kernel depend on.
struct OpCall {
  Op op;
  const Attributes& attributes;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
};

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
  constexpr bool operator==(const Kernel&) const = default;
};

// How tensor parallelism cuts an operation (models/passes/split_tensors.cpp acts on it).
enum class SplitRule : std::uint8_t {
  rows,        // works row by row on whole rows: replicated, or on a share of the rows
  linear,      // by the parameter's cut: columns, rows or not at all
  heads,       // works on this rank's heads
  elements,    // works element by element on whatever share it is given
  vocabulary,  // embedding, cross-entropy: by the vocabulary
  whole,       // needs the whole tensor on every rank
  first,       // makes whole sequences on every rank, which then takes its share of the rows
  none         // made by a pass; never split
};

// Whether an operation can be run on some of its rows at a time (models/graph/fusion.h). Inferred
// outputs are cut by rows; parameter gradients are sums over the rows.
struct RowRule {
  std::uint32_t inputs = 0;  // bit i: input i is cut by rows, the others are needed whole; none:
                             // the operation looks at several rows at once
  bool product = false;      // runs on all threads at once, worth it for long blocks only
  bool counts_positions = false;  // needs to know which rows these are
  bool epilogue = false;          // element by element: a product can do it to its output
  constexpr explicit operator bool() const { return inputs != 0; }
};

// How a device that computes in fp32 only works on 16 bits (models/graph/widen.h).
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

class Gradients;
struct Node;

// A row of the table of operations (models/graph/ops/): all that is known of one, but its kernels.
struct OpInfo {
  Op op;
  std::string_view name;
  SplitRule split = SplitRule::none;
  bool is_gradient = false;       // belongs to the backward pass
  bool is_communication = false;  // lowered to a collective
  // Types of the outputs from input types and attributes; parameter gradients, which come last, are
  // not among them (they have their parameter's shape). A wrong input is a MESHWRIGHT_CHECK.
  void (*infer)(const Attributes&, std::span<const TensorType>, std::vector<TensorType>&);
  // Appends the kernels that a GPU at this compiler level runs for the operation.
  void (*work)(const OpCall&, CompilerLevel, std::vector<Kernel>&);
  // FLOPs as MFU counts them; nullptr: none.
  double (*model_flops)(const OpCall&) = nullptr;
  // Appends what makes the inputs' gradients from that of the first output; nullptr: nothing ever
  // asks for it.
  void (*differentiate)(Gradients&, const Node&, int dy) = nullptr;
  bool begins_backward = false;   // differentiated without a gradient of its output (dy = -1)
  bool takes_loss_scale = false;  // with which gradients a backward pass begins: in fp16 they are
                                  // multiplied by the loss scale, which lowering appends
  RowRule rows = {};
  WidenRule widening = {};
  // What it makes of one element of each input, for devices that compile their kernels: of each
  // output an expression in C where $i is the element of input i, $factor the attribute and $gelu
  // gelu_tanh or gelu_erf, whose slopes are $gelu_slope. The functions are those of
  // exec/backends/cuda/fused/fused_prelude.cpp.in.
  std::array<std::string_view, 2> elements{};
  bool in_place = false;  // element i of the first output needs element i of the operands only, and
                          // is written last
};

const OpInfo& info(Op op);
std::span<const OpInfo> op_table();  // in the order of the enumerators

void append_kernels(const OpCall& call, CompilerLevel level, std::vector<Kernel>& kernels);

// Matrix-product FLOPs of a forward operation as MFU counts them: attention not halved for the
// mask.
double model_flops(const OpCall& call);

// One optimizer step over `elements` parameters.
struct OptimizerWork {
  std::int64_t elements = 0;
  int moments = 2;             // 2 Adam and its kin, 1 SGD with momentum
  Dtype weights = Dtype::f32;  // storage of the working copy; where it is not f32 there are masters
  Dtype gradients = Dtype::f32;
  bool moments_are_ready = false;  // lamb: lamb_norms has read the gradients
};
void append_optimizer_kernels(const OptimizerWork& work, CompilerLevel level,
                              std::vector<Kernel>& kernels);

}  // namespace meshwright
