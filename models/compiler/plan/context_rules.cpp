#include "models/compiler/plan/context_rules.h"

#include <algorithm>
#include <numeric>

#include "models/compiler/plan/rules.h"

namespace meshwright::compiler {

namespace {

// Returns the largest number of parts into which the heads of a tensor rank can be divided, so that
// each part has an equal number of query heads and of key-value heads. Returns 0 if the tensor
// degree does not divide both, which another rule reports.
int heads_to_share(const Parallelism& p, const ModelSizes& model) {
  const int common = std::gcd(model.heads, model.kv_heads);
  return common % p.tensor == 0 ? common / p.tensor : 0;
}

Ruling check_exchanged_heads(const Parallelism& p, const ModelSizes& model) {
  const int heads = heads_to_share(p, model);
  if (heads % p.context == 0) return {};
  return wrong_choice(
      divisors_of(heads), "/parallelism/context_exchange",
      "'all_to_all' gives each of {} ranks some of the heads of a tensor rank: {} of queries and "
      "{} of keys and values; use 'p2p' or 'all_gather', or context ",
      p.context, model.heads / p.tensor, model.kv_heads / p.tensor);
}

Ruling check_context_heads(const Parallelism& p, const ModelSizes& model) {
  if (heads_to_share(p, model) == 0) return {};
  const std::vector<std::int64_t> choices = choices_of_context_heads(p, model);
  if (std::ranges::count(choices, p.context_heads) > 0) return {};
  const int heads = model.heads / p.tensor, kv_heads = model.kv_heads / p.tensor;
  if (choices.empty())
    return broken("/parallelism/context_exchange",
                  "'a2a+p2p' needs two or more neighbours that share out the heads of a tensor "
                  "rank: {} of queries and {} of keys and values, and two or more of them around "
                  "each ring; {} context ranks allow none; use 'p2p', 'all_gather' or 'all_to_all'",
                  heads, kv_heads, p.context);
  return wrong_choice(
      choices, "/parallelism/context_heads",
      "{} neighbours do not cut {} context ranks into rings of two or more, or do not share out "
      "the heads of a tensor rank: {} of queries and {} of keys and values; use ",
      p.context_heads, p.context, heads, kv_heads);
}

}  // namespace

std::vector<std::int64_t> choices_of_context_heads(const Parallelism& p, const ModelSizes& model) {
  const int heads = heads_to_share(p, model);
  std::vector<std::int64_t> choices;
  for (int ranks = 2; heads > 0 && 2 * ranks <= p.context; ++ranks)
    if (p.context % ranks == 0 && heads % ranks == 0) choices.push_back(ranks);
  return choices;
}

int default_context_heads(const Parallelism& p, const ModelSizes& model, int ranks_per_host) {
  int stride = 1;  // distance between the ranks of neighbours in a context group
  const std::string_view order = order_of_axes(p.placement);
  for (auto axis = order.rbegin(); axis != order.rend() && *axis != 'D'; ++axis)
    stride *= *axis == 'P' ? p.pipeline : p.tensor;
  const std::vector<std::int64_t> choices = choices_of_context_heads(p, model);
  if (choices.empty()) return 0;
  std::int64_t chosen = choices.front();
  for (const std::int64_t ranks : choices)
    if (ranks_per_host % (ranks * stride) == 0) chosen = ranks;
  return static_cast<int>(chosen);
}

// Checks the context degree and context_exchange. A rank holds two chunks of each sequence
// (models/program/graph/context.h), so the length must divide into twice as many chunks as ranks.
// Unless the whole context group exchanges heads, attention on a rank is over parts of sequences,
// which the unfused kernel does not support.
Ruling broken_context_rule(const Plan& plan, const ModelSizes& model) {
  const Parallelism& p = plan.parallelism;
  const int context = p.context, length = plan.training.sequence_length;
  if (context == 1) return {};
  if (model.has_decoder)
    return broken("/parallelism/context",
                  "{} ranks would share each sequence, and a decoder attends to the encoder's "
                  "whole one; use 1",
                  context);
  if (model.reads_images)
    return broken("/parallelism/context",
                  "{} ranks would share each sequence, and an image is read as a whole; use 1",
                  context);
  if (length % (2 * context) != 0)
    return wrong_choice(divisors_of(length % 2 == 0 ? length / 2 : 1), "/parallelism/context",
                        "sequence_length {} does not divide into 2 x context {} = {} chunks; use a "
                        "multiple of {}, or context ",
                        length, context, 2 * context, 2 * context);
  if (p.has_two_exchanges())
    if (Ruling ruling = check_context_heads(p, model)) return ruling;
  if (p.attends_to_whole_sequences()) return check_exchanged_heads(p, model);
  if (plan.training.attention == AttentionKernel::unfused)
    return broken("/training/attention",
                  "'unfused' keeps whole score matrices, which parallelism.context cuts; use "
                  "'flash' or 'flash2', or context 1");
  return {};
}

}  // namespace meshwright::compiler
