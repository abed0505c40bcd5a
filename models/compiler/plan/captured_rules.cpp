// The rules about plans of captured models. Such a model was recorded from a PyTorch program, and
// its operations are not known.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/compiler/plan/rules.h"
#include "models/core/error.h"
#include "models/program/step_settings.h"

namespace meshwright::compiler {

namespace {

using DegreeList = std::array<int, 8>;

bool has(const DegreeList& degrees, int degree) {
  return std::ranges::find(degrees, degree) != degrees.end();
}

// Returns the degrees as text, with 1, which needs no capture of its own.
std::string listed(const DegreeList& degrees) {
  std::vector<std::string> words{"1"};
  for (const int degree : degrees)
    if (degree > 0) words.push_back(std::to_string(degree));
  return list_of(words, "and");
}

}  // namespace

Ruling broken_captured_rule(const Plan& plan, const ModelSizes& model) {
  if (!model.captured) return {};
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  const std::pair<std::string_view, int> splits[] = {{"/parallelism/context", p.context},
                                                     {"/parallelism/expert", p.expert}};
  Judge judge;
  judge
      .refuse_if(p.tensor > 1 && !has(model.tensor_degrees, p.tensor), "/parallelism/tensor",
                 "the model was captured for tensor {}, not for {}; use that, or capture it again "
                 "with --tensor {}",
                 listed(model.tensor_degrees), p.tensor, p.tensor)
      .refuse_if(p.tensor > 1 && p.sequence_parallel && !has(model.sequence_degrees, p.tensor),
                 "/parallelism/sequence_parallel",
                 "true is not possible for this captured model with tensor {}; use false", p.tensor)
      .refuse_if(p.tensor > 1 && p.tensor_layout != TensorLayout::megatron,
                 "/parallelism/tensor_layout",
                 "a captured model is divided by layout 'megatron'; "
                 "use it")
      .refuse_if(p.tensor > 1 && p.tensor_batch_own, "/parallelism/tensor_batch",
                 "'own' needs operations, which are not known of a captured model; use 'shared'")
      .refuse_if(p.tensor > 1 && (p.tensor_chunks > 1 || p.overlap_tensor), "/parallelism/overlap",
                 "it divides operations, which are not known of a captured model; leave it out");
  for (const auto& [key, degree] : splits)
    judge.refuse_if(
        degree > 1, key,
        "{} would split operations, which are not known of a captured model; use 1, and "
        "pipeline, data and zero_stage instead",
        degree);
  return judge
      .refuse_if(t.precision != model.precision, "/training/precision",
                 "the model was captured in {}, not in {}; use that, or capture it again with "
                 "--precision {}",
                 name_of(model.precision), name_of(t.precision), name_of(t.precision))
      .refuse_if(model.micro_batch > 0 && t.micro_batch != model.micro_batch,
                 "/training/micro_batch",
                 "the model was captured with {} samples, and its sizes do not grow with them; use "
                 "{}",
                 model.micro_batch, model.micro_batch)
      .refuse_if(
          t.sequence_length != std::max(1, model.tokens_per_sample), "/training/sequence_length",
          "the model was captured with {} tokens in each sample; use {}, or capture it again",
          std::max(1, model.tokens_per_sample), std::max(1, model.tokens_per_sample))
      .refuse_if(t.recompute == Recompute::selective || !t.recompute_modules.empty() ||
                     t.recompute_budget.has_value(),
                 "/training/recompute",
                 "parts of a block cannot be recomputed alone in a captured model; use 'full' or "
                 "'none'")
      .refuse_if(t.lora.has_value(), "/training/lora",
                 "adapters are added to linear layers, which are not known of a captured model; "
                 "capture the model with its adapters")
      .refuse_if(t.memory_of != MemoryOf::engine, "/training/memory_of",
                 "'{}' is computed from operations, which are not known of a captured model; use "
                 "'engine'",
                 memory_of_names()[static_cast<std::size_t>(t.memory_of)]);
}

}  // namespace meshwright::compiler
