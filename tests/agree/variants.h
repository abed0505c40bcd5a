// Defines the named changes that parity tests make to plans, and visits lists of such plans.
#pragma once

#include <span>
#include <string>

#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/one_in.h"

namespace meshwright::tests {

using Change = void (*)(Plan& plan);

inline void nothing(Plan&) {}
// Applies several changes in this order.
template <Change... changes>
void all_of(Plan& plan) {
  (changes(plan), ...);
}

inline void rows(Plan& plan) { plan.parallelism.sequence_parallel = true; }
inline void in_pairs(Plan& plan) { plan.parallelism.shard = 2; }
inline void nothing_overlaps(Plan& plan) {
  plan.parallelism.overlap_gradients = plan.parallelism.overlap_parameters = false;
}
inline void tensor_overlaps(Plan& plan) { plan.parallelism.overlap_tensor = true; }
template <int chunks>
void tensor_in_chunks(Plan& plan) {
  plan.parallelism.overlap_tensor = true;
  plan.parallelism.tensor_chunks = chunks;
}
inline void few_active(Plan& plan) { plan.parallelism.active_microbatches = 2; }
inline void gpipe(Plan& plan) { plan.parallelism.schedule = ScheduleKind::gpipe; }
inline void zero_bubble(Plan& plan) { plan.parallelism.schedule = ScheduleKind::zero_bubble; }
inline void interleaved_zero_bubble(Plan& plan) {
  plan.parallelism.schedule = ScheduleKind::interleaved_zero_bubble;
}
inline void zero_bubble_v(Plan& plan) { plan.parallelism.schedule = ScheduleKind::zero_bubble_v; }
inline void dualpipe_v(Plan& plan) { plan.parallelism.schedule = ScheduleKind::dualpipe_v; }
inline void gathers(Plan& plan) { plan.parallelism.context_exchange = ContextExchange::all_gather; }
inline void heads_exchanged(Plan& plan) {
  plan.parallelism.context_exchange = ContextExchange::all_to_all;
}
// Makes two neighbours exchange heads by all-to-all, and keys and values of these heads go around a
// ring.
inline void two_exchanges(Plan& plan) {
  plan.parallelism.context_exchange = ContextExchange::a2a_p2p;
  plan.parallelism.context_heads = 2;
}
inline void own_batches(Plan& plan) { plan.parallelism.tensor_batch_own = true; }
template <TensorLayout layout>
void layout_of(Plan& plan) {
  plan.parallelism.tensor_layout = layout;
}
template <int order>
void placed(Plan& plan) {
  plan.parallelism.placement = placements()[order];
}

template <ReduceGradients when>
void reduced(Plan& plan) {
  plan.parallelism.reduce_gradients = when;
}
constexpr Change reduced_each = reduced<ReduceGradients::each>,
                 reduced_last = reduced<ReduceGradients::last>;
inline void keeps_gathered(Plan& plan) { plan.parallelism.keeps_gathered = true; }

template <Recompute what>
void recomputes(Plan& plan) {
  plan.training.recompute = what;
}
constexpr Change full = recomputes<Recompute::full>, selective = recomputes<Recompute::selective>,
                 contiguous = recomputes<Recompute::contiguous>;
template <int size>
void groups(Plan& plan) {
  plan.training.recompute = Recompute::group;
  plan.training.recompute_group = size;
}
template <int percent>
void of_blocks(Plan& plan) {
  plan.training.recompute_fraction = percent / 100.0;
}
template <int percent>
void budget(Plan& plan) {
  plan.training.recompute_budget = percent / 100.0;
}
inline void drops(Plan& plan) { plan.training.dropout = 0.1; }
// Recomputes only the operations that gradients need, because the compiler level is `full`.
inline void pruned(Plan& plan) { plan.training.compiler = CompilerLevel::full; }
// Leaves sums and activations as operations of their own, which then work in place.
inline void rows_apart(Plan& plan) { plan.training.passes_off = {"fuse_rows"}; }
// Uses one kernel for each operation of an eager framework.
inline void eager(Plan& plan) { plan.training.compiler = CompilerLevel::none; }
inline void unfused(Plan& plan) { plan.training.attention = AttentionKernel::unfused; }

struct Variant {
  SmallDegrees degrees;  // pipeline, tensor, data, micro-batches, ZeRO, virtual stages, context
  Change change = nothing;
};

// Calls visit(model, plan) for the variants that have as many ranks as `world`. Each is visited for
// both families if everything is tried (one_in.h), otherwise for one family, which alternates.
// Plans train by SGD, whose results can be compared closely, unless the variant changes that.
template <typename Visit>
void for_each_variant(std::span<const Variant> variants, const World& world, const Visit& visit) {
  int turn = 0;
  for (const Variant& variant : variants) {
    if (ranks_of(variant.degrees) != world.size()) continue;
    ++turn;
    for (const char* family : {"gpt", "llama"}) {
      if (++turn % one_in(2) != 0) continue;
      const Model model = eight_blocks(family);
      Plan plan = base_plan(model, variant.degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      variant.change(plan);
      INFO(family << ": " << describe(plan));
      visit(model, plan);
    }
  }
}

}  // namespace meshwright::tests
