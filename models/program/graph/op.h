// Lists all operations, with the inputs and outputs of each. op_table.h has their other properties.
//
// Activations are matrices [rows, width] with rows = micro_batch * sequence_length tokens, sequence
// by sequence. Under sequence parallelism each rank has a contiguous share of the rows.
// With the attribute `documents` an operation has one more input, the last: documents[rows] i32,
// the index in its sequence at which each token's document begins
// (models/program/graph/documents.h).
#pragma once

#include <cstdint>

namespace meshwright::program {

enum class Op : std::uint8_t {
  // forward: inputs -> outputs. s = sequence_length, b = micro_batch, rows = b*s, h = hidden.
  embedding,     // tokens[rows] i32, table[V,h] -> [rows,h]; vocabulary_parallel: other ranks' rows
                 // give 0
  add_position,  // x[rows,h], table[P,h] -> [rows,h]; row r gets table[r mod s + position_offset]
  add_row,       // x[rows,h], table[N,h] -> [rows,h]; every row gets table[0] (BERT's token type 0)
  layer_norm,    // x[rows,h], weight[h], (bias[h]) -> y[rows,h], saved[rows,2] f32 (mean, 1/std)
  rms_norm,      // x[rows,h], weight[h] -> y[rows,h], saved[rows,1] f32 (1/rms)
  head_norm,     // x[rows,n*d], (weight[d]) -> y[rows,n*d], saved[rows,n] f32: rms_norm of each
                 // head; without the weight it is all 1, and d is head_dim
  linear,    // x[rows,in], W, (bias[out]) -> [rows,out]; W[out,in], or [in,out] when weight_in_out.
             // 8 or 4 bits: x, W, their scales, (4: their amax), (bias) -> in attributes.made
  add_bias,  // x[rows,n], bias[n] -> [rows,n]
  rope,      // x -> x with queries and keys rotated (attributes: packing, rotary_dim, ...) or,
             // with `temperature`, multiplied by a factor of their position
  concat_heads,  // x[rows,n*d], r[rows,n*rotary_dim], or [rows,rotary_dim] for all heads where
                 // kv_heads is 1 -> [rows,n*head_dim]: for each of n heads its x, then its r
  attention,     // qkv, or q, k, v, (table[relative_buckets,heads]: relative.h, or sinks[heads]) ->
                 // y[rows,heads*head_dim], saved f32: see AttentionKernel. With `value_dim`,
                 // heads of v and of y are this wide
  gelu,          // x -> gelu(x): tanh form when gelu_tanh, else erf
  relu,          // x -> max(x, 0)
  squared_relu,  // x -> max(x, 0)^2
  tanh,          // x -> tanh(x)
  swiglu,        // gate[rows,n], up[rows,n] -> silu(gate)*up
  clamped_swiglu,  // gate[rows,n], up[rows,n] -> g * sigmoid(1.702 g) * (u + 1), where g = gate is
                   // at most swiglu_limit, and u = up within +- swiglu_limit
  add,             // a, b -> a + b
  dropout,  // x -> x, elements set to 0 with probability `dropout`, the others / (1 - dropout);
            // they are drawn by Philox from (dropout_key, sequence, position, column)
  select_positions,  // x[rows,h], positions[b,p] i32 -> [b*p,h] (rows that a masked model predicts)
  cross_entropy,     // logits[n,V], targets[n] i32 -> loss[n] f32, saved[n] f32 (log-sum-exp);
                     // the loss is 0 if a target is `ignored_target`
  cross_entropy_stats,  // logits[n,V/T], targets[n] -> stats[3,n] f32 (maximum, sum of exp, target
                        // logit)
  cross_entropy_combine,  // stats of all T ranks [T*3,n] -> loss[n], saved[n]
  span_loss,  // logits[rows,2], targets[b,2] i32 -> loss[2*b] f32, saved[2*b] f32 (question
              // answering)
  // tensor parallelism: the gradient of each communication is its conjugate
  tensor_copy,       // x -> x; its gradient is summed over the tensor group
  tensor_reduce,     // x -> sum over the tensor group; its gradient is passed on
  sequence_gather,   // [rows/T,h] -> [rows,h]; gradient: sequence_scatter
  sequence_scatter,  // [rows,h] -> sum over the group, own share [rows/T,h]; gradient:
                     // sequence_gather
  sequence_slice,    // [rows,h] replicated -> own share [rows/T,h], no communication; gradient:
                     // sequence_gather
  stats_gather,      // [k,n] -> [T*k,n]: the statistics of all ranks
  // context parallelism: each of the C ranks of a group has a share of each sequence (context.h)
  context_pack,       // qkv, or k, v -> kv[rows, 2*kv_heads*head_dim]: all keys, then all values
  context_shift,      // x -> the x of the previous rank in the ring of the context group
  context_gather,     // [rows,n] -> [C*rows,n]: the rows of all ranks, in order
  context_attention,  // q or qkv, kv, (y, saved; or, at the first step, sinks) -> y, saved: adds
                      // attention to the kv of the rank `ring_step` before (of all ranks if < 0)
                      // to the result of earlier steps
  // or each rank has some heads, for the tokens of all ranks or of C neighbours
  context_exchange,   // [C*rows,n] -> part j goes to rank j of the C ranks that exchange heads, and
                      // part j of the output is from rank j; its own gradient
  parts_to_sequence,  // [C*rows,n], the tokens of rank 0, of rank 1, ... -> in the order of the
                      // sequences (context.h); gradient: sequence_to_parts
  sequence_to_parts,  // the inverse of parts_to_sequence, which is its gradient
  // every rank has a share of the columns of rows (tensor layout `memory`); w = its columns
  norm_stats,  // x[rows,w] -> [2,rows] f32: mean of own columns, sum of (x - mean)^2
  norm_parts,  // x[rows,w], weight[w], (bias[w]), stats of all ranks [T*2,rows] -> y, and saved
               // as layer_norm's, or with `rms_norm` as rms_norm's
  columns_to_parts,  // [rows,c] -> [T*rows,c/T]: the columns of rank 0 for all rows, of rank 1, ...
                     // (a T-th of each of `segments`); gradient: parts_to_columns
  parts_to_columns,  // the inverse of columns_to_parts, which is its gradient
  // experts: each token chooses k of E; each expert has C slots for every sequence
  // (models/program/graph/experts.h)
  route,     // logits[rows,E], (bias[E]) -> weights[rows,k] f32, slots[rows,k] i32, balance[b] f32
             // dropless: also counts[E,1] i32, the rows of each expert; then `slots` are rows
  dispatch,  // x[rows,h], slots -> [E*b*C,h]: tokens in their slots, expert by expert; else 0.
             // dropless: [expert_parts*expert_rows,h]
  expert_exchange,  // [E*b*C,n] -> the rows of the experts of rank j to rank j of the expert group,
                    // or those of rank j's tokens back to it: both are part j; its own gradient
  expert_linear,    // x[E*b*C,in], W[E/P,out,in] -> [E*b*C,out]: E groups of rows, the g-th meets
                    // W[g mod E/P] (P ranks share the experts: groups come from each in turn).
                    // weight_in_out and 8 bits: as `linear`. dropless: x, W, counts[E,1], the rows
                    // of each group; rows of no group become 0
  add_expert_bias,  // x[E*b*C,n], bias[E/P,n] -> x + the bias of each row's expert; of partial sums
                    // of tensor_degree ranks, each adds its share. dropless: x, bias, counts[E,1];
                    // rows of no group stay
  count_choices,    // slots, (dropless: counts) -> (+)f64 [E]: the number of tokens that chose each
                    // expert, also of those that it dropped
  combine,    // y[E*b*C,h], (weights), slots -> [rows,h]: the weighted sum of a token's slots;
              // without weights, which dispatched rows then have already, their sum
  gate_rows,  // x[rows,h], g[rows,1] -> sigmoid(g) * x: shared experts with a gate
  // operations that an eager framework has instead of gelu, swiglu, rms_norm, rope, attention and
  // cross_entropy (models/compiler/passes/graph/eager_operations.h). d = head_dim.
  scale,               // x -> factor * x
  add_constant,        // x -> x + factor
  cube,                // x -> x^3
  multiply,            // a, b -> a * b
  silu,                // x -> x * sigmoid(x)
  mean_of_squares,     // x[rows,h] -> [rows,1] f32: the mean of squares of each row
  inverse_root,        // x -> 1 / sqrt(x + epsilon)
  scale_rows,          // x[rows,h], r[rows,1] -> r * x
  scale_columns,       // x[rows,h], weight[h] -> x * weight
  rotate_half,         // x -> (-q, p) for each pair (p, q) that rope turns; 0 for other columns
  times_cosine,        // x -> x times the cosine of its angle if rope turns it; else x
  times_sine,          // x -> x times the sine of its angle if rope turns it; else 0
  split_heads,         // qkv -> q[b*heads,s,d], k, v[b*kv_heads,s,d]; or separate x[rows,n*d] ->
                       // [b*n,s,d]
  join_heads,          // the inverse of split_heads
  scores,              // q[b*heads,s,d], k[b*kv_heads,s,d] -> q k^T [b*heads,s,s]
  add_alibi,           // scores -> scores + slope * (key - query)
  mask_scores,         // scores -> scores, but `factor` for keys that the query does not see
  softmax,             // x -> softmax over the last dimension
  drop_probabilities,  // probabilities[b*heads,s,s] -> after dropout
  weigh_values,        // w[b*heads,s,s], v[b*kv_heads,s,d] -> w v [b*heads,s,d]
  log_softmax,         // logits[n,V] -> [n,V] f32; 0 in masked columns
  nll_loss,            // log-probabilities[n,V] f32, targets[n] -> loss[n] f32
  // factors of products in 8 or 4 bits (quantized.h). s: their scales, f32, one for each block of
  // scale_rows x scale_columns, or one for all. A value is what its bits mean times the scale of
  // its block. With 4 bits, scales are e4m3, and values are also multiplied by amax / 2688
  // (exec/core/four_bits.h).
  amax,            // x -> [1] f32: the largest magnitude; with `hadamard_key` also [1]: that of x
                   // after transposition and the Hadamard transform
  tensor_maximum,  // x[1] f32 -> the largest x of the tensor group
  quantize,        // x[rows,n], (amax[1]: one scale for all, not for each block) -> q[rows,n] in
                   // attributes.made, s; with `with_transposed` also q and s of x transposed. To
                   // 4 bits: x, amax, (amax of x transposed and transformed). With
                   // `scales_of_before`: x, largest[2] -> the same and, in a Program,
                   // (+)largest[2]: its first number is the amax, its second becomes the maximum
                   // of itself and of x's magnitudes
  transpose,       // x[rows,n] -> [n,rows]; each of several `matrices`
  widen_weights,   // a parameter in blocks of 4-bit codes -> its elements in attributes.storage
  // images: a sequence is a class token, then the square patches of a square image, row by row
  image_patches,  // pixels[b,c*side*side] i32 of 0 to 255 -> [b*(s-1),c*patch_size^2] of -1 to 1
                  // (x / 127.5 - 1): a patch has its channels one after the other, each row by row
  prepend_row,    // x[b*(s-1),h], row[h] -> [b*s,h]: every sequence begins with the row
  // relative positions, for which an eager framework has a separate kernel
  add_relative_bias,  // scores[b*heads,s,s], table[relative_buckets,heads] -> scores + the table's
                      // row of the bucket of key - query (relative.h)
  // captured models (segment.h)
  segment,       // what it reads, parameters first -> what it hands on, saves and works in
  segment_loss,  // loss[1] -> loss[1] f32, in precision fp64 f64
  // gradients. "(+)" outputs are parameter gradients and are added to.
  embedding_grad,          // tokens, dy -> (+)table
  add_position_grad,       // dy -> (+)table
  add_row_grad,            // dy -> (+)table
  layer_norm_grad,         // x, weight, saved, dy -> dx, (+)weight, (+)bias
  rms_norm_grad,           // x, weight, saved, dy -> dx, (+)weight
  head_norm_grad,          // x, saved, dy, (weight) -> dx, (+)weight
  linear_grad_input,       // dy, W -> dx; 8 or 4 bits: dy, W, their scales, (4: their amax)
  linear_grad_weight,      // x, dy -> (+)W; 8 or 4 bits: as above, or with
                           // `factors_transposed` [in,rows], [out,rows], their scales
  bias_grad,               // dy -> (+)bias
  rope_grad,               // dy -> dx: dy rotated back, or times the same factor
  concat_heads_grad,       // dy -> dx, dr (summed over the heads that share it)
  attention_grad,          // qkv or q, k, v, y, saved, dy, (table or sinks) -> dqkv or dq, dk, dv,
                           // (+)table or sinks
  context_attention_grad,  // q or qkv, kv, y, saved, dy, (dq; or, at the first step, sinks) -> dq
                           // (with that of earlier steps), dkv, (+)sinks
  context_scatter,         // [C*rows,n] -> sum over the ranks, own part [rows,n]
  context_unpack,          // dq, dkv -> dqkv; or dkv -> dk, dv
  gelu_grad,               // x, dy -> dx
  relu_grad,               // x, dy -> dx
  squared_relu_grad,       // x, dy -> dx
  tanh_grad,               // y, dy -> dx
  swiglu_grad,             // gate, up, dy -> dgate, dup
  clamped_swiglu_grad,     // gate, up, dy -> dgate, dup
  dropout_grad,            // dy -> dx, with the elements that the forward pass kept
  select_positions_grad,   // dy[b*p,h], positions -> dx[rows,h]
  cross_entropy_grad,  // logits, saved, targets, (loss_scale[1] f32) -> dlogits, times `scale` and
                       // loss_scale; vocabulary_parallel: own columns
  span_loss_grad,      // logits, saved, targets, (loss_scale[1] f32) -> dlogits, times `scale` and
                       // loss_scale
  norm_parts_sums,  // x, weight, saved, dy -> [2,rows] f32: sums over own columns of g = dy*weight
                    // and of g * normed x; (+)weight, (+)bias
  norm_parts_grad,  // x, weight, saved, dy, those sums of all ranks -> dx
  route_grad,       // logits, slots, dweights, (dropless: counts), (loss_scale[1] f32) -> dlogits,
                    // including the balancing loss times `scale` and loss_scale; (+)bias, unchanged
  dispatch_grad,    // slots, dy[E*b*C,h] -> dx[rows,h]
  expert_linear_grad_input,   // dy, W, (counts) -> dx
  expert_linear_grad_weight,  // x, dy, (counts) -> (+)W
  expert_bias_grad,           // dy, (counts) -> (+)bias
  combine_grad,               // y, weights, slots, dy -> dy of the slots [E*b*C,h], dweights
  gate_rows_grad,             // x, g, dy -> dx, dg
  segment_grad,               // what it kept, dy... -> dx..., (its workspace,) (+)parameters
  segment_loss_grad,          // loss, (loss_scale[1] f32) -> dloss: `scale` times loss_scale
  // an operation that only the training compiler makes
  fused,  // a list of the operations above, on some rows at a time: see
          // models/program/graph/fusion.h
  // gradients of an eager framework's operations; linear operations are their own gradients, or
  // each other's
  cube_grad,             // x, dy -> dx
  silu_grad,             // x, dy -> dx
  mean_of_squares_grad,  // x, dy[rows,1] -> dx
  inverse_root_grad,     // y, dy -> dx
  row_dots,              // x[rows,h], dy[rows,h] -> [rows,1] f32: the gradient of scale_rows' r
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
  // the gradient of the table of relative positions
  relative_bias_grad,  // dscores[b*heads,s,s] -> (+)table
  // operations of a step in addition to the model's
  zero,               // -> every output set to 0
  sum_loss,           // loss[n] f32, sum[1] f64 -> (+)sum: rows added in order in double
  sum_of_squares,     // a flat gradient bucket -> (+)[1] f64 (what the program's bucket counts)
  update_loss_scale,  // squared norm[1] f64 -> (+)the scale's state, loss_scale[1] f32 of the next
                      // step
  update_largest,  // squared norm[1] f64, loss[1] f64 -> (+)largest[n,2] f32, (+)history[n,steps]
                   // f32: for each of n tensors, this step's largest element becomes the newest of
                   // its history, and the next step rounds by the history's largest. Nothing
                   // changes if norm or loss are not finite
  lamb_norms,     // a bucket's gradients, masters, squared norm -> (+)moments, (+)squared norms f64
                  // of each parameter and of its update
  muon_momentum,  // a bucket's gradients, first moment, squared norm -> (+)first moment, the
                  // update f32 that is made orthogonal
  adafactor_sums,        // a bucket's gradients, squared norm -> (+)sums of squares of the rows and
                         // columns of each matrix f64
  adafactor_norms,       // a bucket's gradients, masters, squared norm, and factors f32 with the
                         // sums f64 of all ranks, or second moments -> (+)these, (the sums replaced
                         // by the factors of gradients,) (+)squared norms f64 of each parameter and
                         // of its update
  update_choice_biases,  // the step's counts of choices f64 [n], squared norm -> (+)weights and
                         // (+)masters of a bucket: the biases of routers
                         // (StageParameter::first_count) move by router_bias_update_rate, up if an
                         // expert was chosen less often than the mean of its layer, down if more
                         // often
  count_
};

}  // namespace meshwright::program
