// Attributes of an operation, in addition to its operands. The comment at each attribute names the
// operations that read it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "models/core/dtype.h"
#include "models/program/graph/kernel_choice.h"

namespace meshwright {

enum class Packing : std::uint8_t {
  separate,      // q, k, v (or a single one) are tensors of their own: [rows, heads*head_dim]
  concatenated,  // [rows, (heads + 2*kv_heads)*head_dim]: all q, all k, all v (GPT-2)
  per_head       // [rows, heads * 3 * head_dim]: q, k, v of a head together (GPT-NeoX, BLOOM)
};

struct Fusion;

// The target of a row of a cross-entropy that has no target: it has no loss and no gradient.
constexpr int ignored_target = -1;

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
  int head_parts = 1;       // attention: neighbours of the context group, each of which has so many
                            // `heads` of the tokens of all of them
  // context operations: keys and values travel as often as there are queries' heads, sums are in
  // fp32, and kernels of their own add to them, as in PyTorch. Priced, not executed.
  bool context_of_pytorch = false;
  double rotary_base = 10000;
  // Slow turns are slower: see models/program/graph/rotary.h.
  double rotary_factor = 1, rotary_low = 1, rotary_high = 4;
  int rotary_original = 0;
  bool rotary_yarn = false, rotary_truncate = true;
  // rope: heads do not turn, but are multiplied by
  // 1 + temperature * log(1 + floor((place in the sequence + 1) / temperature_floor)); 0: they
  // turn.
  double temperature = 0;
  int temperature_floor = 1;
  double scale = 1;   // gradients: 1 / targets of the global batch
  double factor = 1;  // scale, add_constant, mask_scores; losses: what their gradient is weighed by
  Dtype storage = Dtype::f32;  // log_softmax: type of the logits
  // cross_entropy, cross_entropy_stats: a kernel for each of its operations, in fp32. Priced, not
  // executed.
  bool loss_by_operations = false;
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
  int score_width = 0;        // by the root of this instead; 0: head_dim
  double score_factor = 1;    // and multiplies them by this
  int value_dim = 0;          // attention: width of a head's values and outputs; 0: head_dim
  double score_cap = 0;  // attention: scores become score_cap * tanh(score / score_cap), before
                         // biases and the mask; 0: they stay
  bool sinks = false;    // attention: a softmax has one score more, the head's own, of no value
  int window = 0;  // attention, mask_scores: of a query's own key and those before it, how many it
                   // sees; 0: all
  int chunk = 0;   // the same: it sees those of its own chunk of so many places; 0: all
  // attention, mask_scores, rope, add_position and their gradients: the last input says where each
  // token's document begins (documents.h), of which alone it knows.
  bool documents = false;
  double document_share = 1;  // attention: of the scores of whole sequences, those inside documents
  bool weight_in_out = false;
  bool gelu_tanh = false;
  double swiglu_limit = 0;          // clamped_swiglu
  bool rotary_interleaved = false;  // pairs (2i, 2i+1) (GPT-J) instead of (i, i + rotary_dim/2)
  bool vocabulary_parallel = false;
  bool sequence_parallel = false;  // the rows of this op are this rank's share
  bool hidden_share = false;       // dropout: its columns are this rank's share
  bool rms_norm = false;           // norm_parts: the mean is not taken off
  bool one_plus_weight = false;    // norms, scale_columns: they multiply by 1 + the weight
  int experts = 0;                 // of the whole model's layer
  int experts_per_token = 0;
  bool weights_of_all = false;     // shares of all experts, not of those that were chosen
  bool sigmoid_scores = false;     // route: scores of experts by themselves, no softmax
  int expert_groups = 1;           // route: of equally many experts, of which a token has
  int groups_per_token = 1;        // so many to choose from, those that score highest
  bool groups_by_two = false;      // by the sum of their two best experts; else by the best
  double expert_weight_scale = 1;  // route: what weights are multiplied by at last
  int expert_capacity = 0;         // slots of each expert for every sequence
  std::int64_t expert_rows = 0;    // dropless: rows of the experts of each of `expert_parts`
  int expert_parts = 1;            // ranks; 0: experts have slots
  double expert_rank_factor = 0;   // dropless: expert_rows against those of equal use of
                                   // all parts; 0: all choices may fall on one part
  double expert_imbalance = 1;     // dropless: by so much more than the mean the fullest part is
                                   // predicted to get
  bool overflow_is_error = false;  // dropless: a sequence has no finite balancing loss where
                                   // a choice finds no row
  double balance = 0;              // what a sequence's balancing loss is multiplied by
  std::array<std::int64_t, 3> segments{};  // columns_to_parts: widths (queries, keys, values);
                                           // none: one of all columns
  int patch_size = 0;                      // pixels across a patch
  int channels = 0;                        // of an image
  Dtype made =
      Dtype::f32;  // image_patches, quantize, products of 8 or 4 bits: the type of the output
  std::int64_t scale_rows = 0,
               scale_columns = 0;  // quantize: a block that has a scale; 0: all of it
  bool scales_of_before = false;   // quantize: what earlier steps saw decides; before
                                   // there are any, numbers are as large as `scale`
  bool scales_are_powers = false;  // quantize: of two
  std::uint64_t rounding_key =
      0;  // quantize, to e2m1: of the random bits that round; 0: to nearest
  std::uint64_t hadamard_key = 0;  // amax, quantize to e2m1: of the signs of the transform that
                                   // what is transposed goes through; 0: none
  bool with_transposed = false;    // quantize: what is quantized transposed too
  int matrices = 1;                // quantize, transpose: so many one below the other, each of them
                                   // transposed; of three dimensions the first says how many
  bool joins_maker = false;        // amax, quantize: done by the kernel that makes what they read
  bool factors_transposed = false;  // linear_grad_weight: both are stored so
  bool gradient_is_whole =
      false;  // sequence_gather: every rank has the whole gradient; slice, don't sum
  bool accumulate_separately =
      false;          // weight gradients: a kernel of its own adds them to the fp32 sum
  bool adds = false;  // linear, linear_grad_input inside a fusion: to what the output holds
  std::shared_ptr<const Fusion> fusion;  // fused: its body

  bool operator==(const Attributes&) const = default;
};

constexpr int value_dim_of(const Attributes& a) {
  return a.value_dim > 0 ? a.value_dim : a.head_dim;
}

constexpr bool is_dropless(const Attributes& a) { return a.expert_rows > 0; }
// Returns whether the step adds up the balancing losses of a route.
constexpr bool has_balancing_loss(const Attributes& a) {
  const std::int64_t choices =
      std::int64_t{a.micro_batch} * a.sequence_length * a.experts_per_token;
  return a.balance > 0 || (is_dropless(a) && a.overflow_is_error && a.expert_rows < choices);
}

// Returns the factor by which attention multiplies the dot products of queries and keys.
double score_scale(const Attributes& attributes);

// Returns the patches across a square image. Their square is the number of patches of a sequence,
// without the class token.
int patches_across(const Attributes& attributes);

}  // namespace meshwright
