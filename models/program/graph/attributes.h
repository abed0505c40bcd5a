// Defines the attributes of an operation: its parameters in addition to its operands. The comment
// at an attribute often begins with the operations that read it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "models/core/dtype.h"
#include "models/program/graph/kernel_choice.h"

namespace meshwright::program {

enum class Packing : std::uint8_t {
  separate,      // q, k, v (or a single one) are tensors of their own: [rows, heads*head_dim]
  concatenated,  // [rows, (heads + 2*kv_heads)*head_dim]: all q, all k, all v (GPT-2)
  per_head       // [rows, heads * 3 * head_dim]: q, k, v of a head together (GPT-NeoX, BLOOM)
};

struct Fusion;
struct Segment;

// The value in the targets of a cross-entropy for a row that has no target. Such a row has no loss
// and no gradient.
constexpr int ignored_target = -1;

struct Attributes {
  int micro_batch = 1;
  int sequence_length = 1;
  int heads = 0;     // on this rank
  int kv_heads = 0;  // on this rank
  int head_dim = 0;
  int rotary_dim = 0;  // 0: no rotation
  // RoBERTa's table counts positions from 2. Queries that grow (temperature) count them from 1, or
  // with an offset of 1 from 0.
  int position_offset = 0;
  int tensor_degree = 1;   // ranks over which a vocabulary-parallel or communication op works
  int context_degree = 1;  // ranks that share each sequence; each holds sequence_length tokens
  int ring_step = 0;       // context_attention: keys are from the rank this many places before in
                           // the ring; -1: from all ranks
  int head_parts = 1;      // attention: neighbours of a context group that divide its heads; each
                           // has `heads` of them for the tokens of all neighbours
  // Whether context operations work as in PyTorch: keys and values travel once for each query head,
  // sums are in fp32, and separate kernels add to them. This is only predicted, never executed.
  bool context_of_pytorch = false;
  double rotary_base = 10000;
  // Scaling of rotary positions for longer texts (models/program/graph/rotary.h).
  double rotary_factor = 1, rotary_low = 1, rotary_high = 4;
  int rotary_original = 0;
  bool rotary_yarn = false, rotary_truncate = true;
  // rope: if it is not 0, heads are not rotated but multiplied by 1 + temperature * log(1 +
  // floor((position in the sequence + 1 - position_offset) / temperature_floor)).
  double temperature = 0;
  int temperature_floor = 1;
  double scale = 1;            // gradients: 1 / targets of the global batch
  double factor = 1;           // scale, add_constant, mask_scores; losses: a factor of the gradient
  Dtype storage = Dtype::f32;  // log_softmax: type of the logits; widen_weights: of its result
  // cross_entropy, cross_entropy_stats: whether the loss is one kernel for each of its operations,
  // in fp32. This is only predicted, never executed.
  bool loss_by_operations = false;
  double epsilon = 1e-5;
  double dropout = 0;  // probability that an element is set to 0; in attention, the elements are
                       // its probabilities, in row head * sequence length + query
  // dropout: whether separate kernels convert its input to fp32 and its result back, as in peft.
  // This is only predicted, never executed.
  bool drops_in_fp32 = false;
  std::uint64_t dropout_key = 0;  // made of the seed and the module's path
  std::int64_t vocabulary = 0;    // unpadded size; columns and rows beyond it are masked
  Packing packing = Packing::separate;
  AttentionKernel attention = AttentionKernel::flash2;
  bool causal = true;
  bool alibi = false;
  int alibi_heads = 0;        // heads of the whole model: the slopes depend on it
  int relative_buckets = 0;   // rows of a table of relative positions (relative.h), half of them
                              // for later keys unless causal; 0: no table
  int relative_distance = 0;  // all keys from this distance on are in the last bucket
  bool scaled_scores = true;  // attention: scores * score_factor / sqrt(score_width)
  int score_width = 0;        // 0: head_dim
  double score_factor = 1;    // see scaled_scores
  int value_dim = 0;          // attention: width of a head's values and outputs; 0: head_dim
  double score_cap = 0;  // attention: scores become score_cap * tanh(score / score_cap), before
                         // biases and the mask; 0: no cap
  bool sinks = false;    // attention: each head has one learned score more, without a value
  int window = 0;  // attention, mask_scores: a query sees its own key and those before it, at most
                   // this many in all; 0: no limit
  int chunk = 0;   // attention, mask_scores: a query sees only keys of its own chunk of this many
                   // positions; 0: no limit
  // attention, context_attention, mask_scores, rope, add_position and their gradients: the last
  // input is the documents tensor (documents.h), and each token sees its own document only.
  bool documents = false;
  double document_share = 1;  // attention: share of the scores that lie inside documents
  bool weight_in_out = false;
  bool gelu_tanh = false;
  double swiglu_limit = 0;          // clamped_swiglu
  bool rotary_interleaved = false;  // pairs (2i, 2i+1) (GPT-J) instead of (i, i + rotary_dim/2)
  bool vocabulary_parallel = false;
  bool sequence_parallel = false;  // the rows of this op are this rank's share
  bool hidden_share = false;       // dropout: its columns are this rank's share
  bool rms_norm = false;           // norm_parts: the mean is not subtracted
  bool one_plus_weight = false;    // norms, scale_columns: they multiply by 1 + the weight
  int experts = 0;                 // of a layer, over all ranks
  int experts_per_token = 0;
  bool weights_of_all = false;     // route: weights are not renormalised over the chosen experts
  bool sigmoid_scores = false;     // route: each score is a sigmoid, not a softmax
  int expert_groups = 1;           // route: groups of equally many experts
  int groups_per_token = 1;        // route: a token chooses among this many groups, the best ones
  bool groups_by_two = false;      // route: a group's score is the sum of its two best experts;
                                   // false: that of its best expert
  double expert_weight_scale = 1;  // route: final factor of the weights; 0: only_balances()
  int expert_capacity = 0;         // slots of each expert for every sequence
  std::int64_t expert_rows = 0;   // dropless: rows for the experts of each part; 0: slots, not rows
  int expert_parts = 1;           // dropless: parts, which are the ranks that share the experts
  double expert_rank_factor = 0;  // dropless: expert_rows relative to equal use of all parts; 0:
                                  // there is room for all choices on one part
  double expert_imbalance = 1;    // dropless: predicted choices on the most loaded part, relative
                                  // to the mean of the parts
  bool overflow_is_error = false;  // dropless: a sequence's balancing loss is not finite if one of
                                   // its choices finds no row
  double balance = 0;              // factor of a sequence's balancing loss
  bool sends_once = false;  // expert_exchange: predictions take a token to travel once to each host
                            // and there once to each rank, not once for each expert
  std::array<std::int64_t, 3> segments{};  // columns_to_parts: widths (queries, keys, values);
                                           // all 0: one segment of all columns
  int patch_size = 0;                      // pixels across a patch
  int channels = 0;                        // of an image
  Dtype made = Dtype::f32;  // image_patches, quantize, segment_loss, products of 8 or 4 bits: the
                            // type of the output
  std::int64_t scale_rows = 0,
               scale_columns = 0;  // quantize: block with one scale; 0: all rows or columns
  bool scales_of_before = false;   // quantize: the largest elements of earlier steps set the scale;
                                   // in the first step, `scale` stands in for them
  bool scales_are_powers = false;  // quantize: scales are powers of two
  std::uint64_t rounding_key =
      0;  // quantize to e2m1: key of the random bits that round; 0: to nearest
  std::uint64_t hadamard_key = 0;  // amax, quantize to e2m1: key of the signs of the Hadamard
                                   // transform of the transposed tensor; 0: no transform
  bool with_transposed = false;    // quantize: also makes the quantized transposed tensor
  int matrices = 1;          // quantize, transpose: matrices one below the other, each transposed
                             // by itself; a tensor of rank 3 has as many as its first size
  bool joins_maker = false;  // amax, quantize: done by the kernel that makes their input
  bool factors_transposed = false;  // linear_grad_weight: both factors are stored transposed
  bool gradient_is_whole =
      false;  // sequence_gather: every rank has the whole gradient, which is sliced, not summed
  bool accumulate_separately = false;  // weight gradients: a separate kernel adds them to their sum
  bool adds = false;                   // linear, linear_grad_input in a fusion: add to the output
  std::shared_ptr<const Fusion> fusion;    // fused: its body
  std::shared_ptr<const Segment> segment;  // segment, segment_grad

  bool operator==(const Attributes&) const = default;
};

constexpr int value_dim_of(const Attributes& a) {
  return a.value_dim > 0 ? a.value_dim : a.head_dim;
}

constexpr bool is_dropless(const Attributes& a) { return a.expert_rows > 0; }
// Returns whether a step sums the balancing losses of this operation `route`: because it has a
// balancing loss, or because this loss reports choices that found no row.
constexpr bool has_balancing_loss(const Attributes& a) {
  const std::int64_t choices =
      std::int64_t{a.micro_batch} * a.sequence_length * a.experts_per_token;
  return a.balance > 0 || (is_dropless(a) && a.overflow_is_error && a.expert_rows < choices);
}

// Returns whether this operation `route` only makes the balancing loss, while another operation
// `route` chooses the experts of the tokens.
constexpr bool only_balances(const Attributes& a) { return a.expert_weight_scale == 0; }

// Returns the factor by which attention multiplies the dot products of queries and keys.
double score_scale(const Attributes& attributes);

// Returns the number of patches along a side of a square image. Its square is the number of patches
// of a sequence, without the class token.
int patches_across(const Attributes& attributes);

}  // namespace meshwright::program
