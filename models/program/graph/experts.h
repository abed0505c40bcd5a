// Experts: a layer has E of them, and each token is given to the k that its router scores highest.
// Routing is per sequence, so that it does not depend on how sequences are dealt out: of a
// sequence, every expert takes C = min(s, ceil(capacity factor * s * k / E)) tokens at most, in the
// order of their positions; what comes after them is dropped, and goes past the layer. An expert's
// slots are its b * C rows of a matrix, sequence by sequence; empty ones hold zeros.
//
// slots[r,j]: the row of the j-th choice of token r, or -1 - (the expert) where that was full.
// weights: softmax over all experts, renormalised over the k (Jiang et al., "Mixtral of Experts",
// 2024), or as it is (`weights_of_all`: OLMoE, Muennighoff et al., 2024); or the sigmoid of each
// logit in place of the softmax (`sigmoid_scores`: DeepSeek-V3 Technical Report, 2024). All are
// multiplied by `expert_weight_scale`. A bias of each expert is added to the scores for the choice
// only; it has a gradient of 0, and may move by the counts of choices (`count_choices`). With
// `expert_groups` a token chooses among the experts of the `groups_per_token` groups that score
// highest.
// Dropless: experts have as many rows as tokens chose them, no slots. Ranks that share the experts
// are parts: those of a part's experts are `expert_rows` rows, one expert after the other, of each
// the tokens of the micro-batch in their order. On one rank that is a row for each choice; of
// several it is a bound that is planned. What it has no room for is dropped, or is an error.
//
// balance: the loss of Fedus et al. ("Switch Transformers", 2021, equations 4 to 6) over the tokens
// of one sequence: E * sum over experts of (tokens that chose it / s) * (mean probability).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/program/graph/op_call.h"

namespace meshwright {

constexpr int most_experts = 512;  // of a layer

int expert_capacity(double factor, int sequence_length, int experts_per_token, int experts);

// Returns the expert that slots[r,j] means.
constexpr int expert_of_slot(const Attributes& a, std::int32_t slot) {
  return slot < 0 ? -1 - slot : static_cast<int>(slot / (a.micro_batch * a.expert_capacity));
}

// Returns the rows of each part's experts in a dropless layer: `factor` times those of equal use,
// or all choices if `factor` is 0.
std::int64_t dropless_rows(double factor, std::int64_t choices, int parts);

// Positions at which the rows of each expert of a dropless layer begin, from the experts' counts.
struct ExpertRows {
  std::array<std::int64_t, most_experts> begin, count;
  ExpertRows(const Attributes& a, const std::int32_t* counts);
  // Returns the expert that slots[r,j] means.
  int expert_of(const Attributes& a, std::int32_t slot) const;
};

// Returns whether the choice goes by the logits themselves, which round less than their softmax.
bool ranks_by_logits(const OpCall& route);

// A product over the rows of all experts as products of one expert's rows each: `op` is linear or
// one of its gradients. Group g of the rows meets matrix g mod `experts`.
struct ExpertProduct {
  Op op = Op::linear;
  std::int64_t groups = 1, experts = 1;
  static constexpr std::size_t most_inputs = 6;  // factors, their scales, (amax)
  std::array<TensorType, most_inputs> all_inputs;
  std::size_t input_count = 0;
  TensorType output;
  // Returns the types of one group's inputs, as `output` is that of its output. Nothing is
  // allocated, because the engine calls this in every step.
  std::span<const TensorType> inputs() const { return {all_inputs.data(), input_count}; }
  // Returns where a group's input begins, in bytes from the start of the input of all groups.
  std::int64_t begin_of(std::size_t input, std::int64_t group) const;
};
bool is_expert_product(Op op);
ExpertProduct expert_product_of(const OpCall& call);

// The parameters of all experts of a layer are one tensor [E, ...]. Its name has `*` where those of
// the published tensors, one per expert, have a number. Any other tensor is published as it is.
struct PublishedTensor {
  std::string name;
  Shape shape;
  std::int64_t begin = 0;  // its first element in the whole
};
std::vector<PublishedTensor> published_tensors(const std::string& name, const Shape& shape);

}  // namespace meshwright
