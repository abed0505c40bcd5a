// Describes layers of experts. A layer has E experts, and each token goes to the k that its router
// scores highest. Routing is per sequence, so that it does not depend on how sequences are
// distributed. From a sequence of s tokens, every expert takes at most C = min(s, ceil(capacity
// factor * s * k / E)), at least 1, in the order of their positions. Later choices are dropped: the
// expert adds nothing to the token. With b sequences, an expert's slots are its b * C rows of a
// matrix, sequence by sequence. Empty slots hold zeros.
//
// slots[r,j]: the row of the j-th choice of token r, or -1 - (the expert) if the expert was full.
// weights: softmax over all experts, renormalised over the k chosen ones (Jiang et al., "Mixtral of
// Experts", 2024), or without that (`weights_of_all`: OLMoE, Muennighoff et al., 2024). With
// `sigmoid_scores` the sigmoid of each logit replaces the softmax (DeepSeek-V3 Technical Report,
// 2024). All are multiplied by `expert_weight_scale`. A bias of each expert is added to the scores
// for the choice only. Its gradient is 0, and the counts of choices may move it (`count_choices`).
// With `expert_groups` a token chooses among the experts of the `groups_per_token` groups that
// score highest.
//
// Dropless layers have no slots: each expert has one row for every token that chose it. The ranks
// that share the experts are called parts. Each part has `expert_rows` rows for its experts, one
// expert after the other, each with the tokens of the micro-batch in their order. With one part
// there is a row for each choice. With several, `expert_rows` is a planned limit. Choices beyond it
// are dropped, or are an error.
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

namespace meshwright::program {

constexpr int most_experts = 512;  // of a layer

int expert_capacity(double factor, int sequence_length, int experts_per_token, int experts);

// Returns the expert that `slot`, an element of slots[r,j], means. Not for dropless layers.
constexpr int expert_of_slot(const Attributes& a, std::int32_t slot) {
  return slot < 0 ? -1 - slot : static_cast<int>(slot / (a.micro_batch * a.expert_capacity));
}

// Returns the number of rows for the experts of each part in a dropless layer: `factor` times the
// rows of equal use, rounded up, at least 1 and at most `choices`. Returns `choices` if `factor` is
// 0 or there is one part.
std::int64_t dropless_rows(double factor, std::int64_t choices, int parts);

// The first row and the number of rows of each expert of a dropless layer, from the counts of
// choices.
struct ExpertRows {
  std::array<std::int64_t, most_experts> begin, count;
  ExpertRows(const Attributes& a, const std::int32_t* counts);
  // Returns the expert that `slot`, an element of slots[r,j], means.
  int expert_of(const Attributes& a, std::int32_t slot) const;
};

// Returns whether the operation `route` compares the logits themselves, which have less rounding
// error than their softmax and the same order.
bool ranks_by_logits(const OpCall& route);

// Splits a matrix multiplication over the rows of all experts into one for each group of rows. `op`
// is `linear` or one of its gradients. Group g of the rows is multiplied by matrix g mod `experts`,
// the number of experts of this rank.
struct ExpertProduct {
  Op op = Op::linear;
  std::int64_t groups = 1, experts = 1;
  static constexpr std::size_t most_inputs = 6;  // factors, their scales, (amax)
  std::array<TensorType, most_inputs> all_inputs;
  std::size_t input_count = 0;
  TensorType output;
  // Returns the types of one group's inputs; `output` is the type of its output. Nothing is
  // allocated, because the engine calls this in every step.
  std::span<const TensorType> inputs() const { return {all_inputs.data(), input_count}; }
  // Returns where a group's input begins, in bytes from the start of the input of all groups.
  std::int64_t begin_of(std::size_t input, std::int64_t group) const;
};
bool is_expert_product(Op op);
ExpertProduct expert_product_of(const OpCall& call);

// A published tensor that is all or part of a parameter. The parameters of all experts of a layer
// are one tensor [E, ...], whose name has `*` in place of the expert's number. Published models
// have one tensor per expert. Any other parameter is a single published tensor.
struct PublishedTensor {
  std::string name;
  Shape shape;
  std::int64_t begin = 0;  // its first element in the parameter
};
std::vector<PublishedTensor> published_tensors(const std::string& name, const Shape& shape);

}  // namespace meshwright::program
