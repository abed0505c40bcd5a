// Lists the shapes of a space: degrees, how context groups exchange, and placements.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "models/compiler/plan/context_rules.h"
#include "models/core/divisors.h"
#include "models/core/error.h"
#include "sim/planner/open_keys.h"

namespace meshwright::sim {

namespace {

// The least number of tokens of a chunk of a sequence that a context group splits. It is the size
// of a tile of attention.
constexpr int least_chunk_tokens = 128;

// Returns whether each rank needs whole sequences for attention. That holds for unfused attention,
// whose scores are in memory, and for latent attention.
bool attends_to_whole_sequences(const OpenKeys& open) {
  return open.sizes.latent || open.base.training.attention == AttentionKernel::unfused;
}

bool may_exchange_heads(const OpenKeys& open) {
  return open.job.is_auto("parallelism.context_exchange") ||
         open.base.parallelism.context_exchange == ContextExchange::all_to_all;
}

// Returns the possible degrees of context. Sequences are split only if a causal model predicts
// every token, into twice as many chunks as ranks.
std::vector<int> contexts(const OpenKeys& open) {
  const int length = open.base.training.sequence_length;
  const bool cuts = !open.sizes.captured && open.job.model.is_causal() &&
                    open.job.model.head == Head::lm &&
                    (open.sizes.experts == 0 || (open.sizes.dropless && !open.sizes.balances)) &&
                    (!attends_to_whole_sequences(open) || may_exchange_heads(open));
  std::vector<int> found = {1};
  for (const int degree : divisors(open.ranks))
    if (cuts && degree > 1 && length % (2 * degree) == 0 &&
        length / (2 * degree) >= least_chunk_tokens)
      found.push_back(degree);
  return found;
}

// Returns how many neighbours exchange heads on two levels if the ranks of a context group are as
// close as they can be.
int neighbours_on_host(const OpenKeys& open, const Candidate& shape) {
  Parallelism close;
  close.tensor = shape.tensor;
  close.context = shape.context;
  return default_context_heads(close, open.sizes, open.ranks_per_host);
}

std::vector<ContextExchange> exchanges(const OpenKeys& open, const Candidate& shape) {
  const ContextExchange given = open.base.parallelism.context_exchange;
  if (shape.context == 1) return {given};
  std::vector<ContextExchange> all = {ContextExchange::all_to_all};
  if (!attends_to_whole_sequences(open))
    all = {ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::all_to_all};
  const bool spans_hosts = shape.tensor * shape.context > open.ranks_per_host;
  if (!attends_to_whole_sequences(open) && spans_hosts && neighbours_on_host(open, shape) > 1)
    all.push_back(ContextExchange::a2a_p2p);
  return open.choices("parallelism.context_exchange", given, std::move(all));
}

// Returns how many ranks exchange heads on two levels: the job's number if it is set. The result is
// 1 if the exchange does not have two levels.
int context_heads(const OpenKeys& open, const Candidate& shape) {
  if (shape.context == 1 || shape.context_exchange != ContextExchange::a2a_p2p) return 1;
  const int given = open.base.parallelism.context_heads;
  return given > 0 ? given : neighbours_on_host(open, shape);
}

// Returns the word of `words` that equals `word`. Unlike `word`, it outlives the job.
std::string_view known_word(std::string_view word, const std::vector<std::string>& words) {
  for (const std::string& known : words)
    if (known == word) return known;
  MESHWRIGHT_CHECK(false, "the reader of jobs knows the word");
  return {};
}

}  // namespace

namespace {

// Returns the tensor degrees to look at, among those that divide the number of ranks.
std::vector<int> tensor_degrees(const OpenKeys& open, const std::vector<int>& divisors) {
  const bool needs_whole_rows = open.sizes.latent || open.sizes.bare_norms;
  if (needs_whole_rows && open.base.parallelism.tensor_layout == TensorLayout::memory) return {1};
  if (!open.sizes.captured) return divisors;
  std::vector<int> captured{1};
  std::ranges::copy_if(divisors, std::back_inserter(captured), [&](int degree) {
    return std::ranges::count(open.sizes.tensor_degrees, degree) > 0;
  });
  return captured;
}

}  // namespace

std::vector<Candidate> shapes_of(const OpenKeys& open) {
  const Parallelism& p = open.base.parallelism;
  const std::vector<int> degrees = divisors(open.ranks);
  const std::vector<int> tensors = tensor_degrees(open, degrees);
  std::vector<Candidate> found;
  for (const int pipeline : open.choices("parallelism.pipeline", p.pipeline, degrees))
    for (const int tensor : open.choices("parallelism.tensor", p.tensor, tensors))
      for (const int context : open.choices("parallelism.context", p.context, contexts(open))) {
        const std::int64_t model = std::int64_t{pipeline} * tensor * context;
        // The number of replicas must be whole.
        if (model > open.ranks || open.ranks % model != 0) continue;
        Candidate shape;
        shape.pipeline = pipeline;
        shape.tensor = tensor;
        shape.context = context;
        shape.data = static_cast<int>(open.ranks / model);
        for (const ContextExchange exchange : exchanges(open, shape)) {
          shape.context_exchange = exchange;
          shape.context_heads = context_heads(open, shape);
          found.push_back(shape);
        }
      }
  return found;
}

std::vector<std::string_view> placements_of(const OpenKeys& open, const Candidate& shape) {
  const std::vector<std::string>& words = placements();
  if (!open.job.is_auto("parallelism.placement"))
    return {known_word(open.base.parallelism.placement, words)};
  std::vector<std::string_view> found;
  std::vector<std::string> orders;
  for (const std::string& word : words) {
    if (word.size() != 3) continue;  // a word for one of the other placements
    std::string order;
    for (const char axis : word) {
      const int ranks = axis == 'P'   ? shape.pipeline
                        : axis == 'T' ? shape.tensor
                                      : shape.replicas();
      if (ranks > 1) order += axis;
    }
    if (std::find(orders.begin(), orders.end(), order) != orders.end()) continue;
    orders.push_back(order);
    found.push_back(word);
  }
  return found;
}

}  // namespace meshwright::sim
