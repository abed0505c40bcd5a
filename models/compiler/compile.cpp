#include "models/compiler/compile.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "models/architectures/build_of_rank.h"
#include "models/compiler/lower/lower.h"
#include "models/compiler/partition/partition.h"
#include "models/compiler/passes/dataflow/recomputed_groups.h"
#include "models/compiler/passes/dataflow/rematerialize_rows.h"
#include "models/compiler/passes/graph/fuse_loss.h"

namespace meshwright::compiler {

namespace {

bool has_pass(const Training& training, std::string_view name) {
  return std::ranges::any_of(passes_of(training),
                             [&](const Pass& pass) { return pass.name == name; });
}

bool leaves_rows_open(const Plan& plan) {
  return !plan.training.rematerialize_rows && may_rematerialize_rows(plan) &&
         has_pass(plan.training, "rematerialize_rows");
}

bool leaves_loss_open(const Plan& plan) {
  return plan.training.loss_block_bytes == 0 && has_pass(plan.training, "fuse_loss");
}

Plan closed(Plan plan, bool rows_made_again, std::int64_t loss_block_bytes) {
  if (leaves_rows_open(plan)) plan.training.rematerialize_rows = rows_made_again;
  if (leaves_loss_open(plan)) plan.training.loss_block_bytes = loss_block_bytes;
  return plan;
}

class Compilation {
 public:
  // Partitions the plan, unless it has stages. The partition balances the graph that the passes
  // make of the plan, or of cut_by(plan) if the target knows peak_bytes. That graph is kept for
  // lowered(), unless recomputation depends on the stages.
  Compilation(const Model& model, Plan plan, const Target& target)
      : model_(model), target_(target), plan_(std::move(plan)) {
    if (!plan_.stage_of_unit.empty()) return;
    const Plan by = target.peak_bytes ? cut_by(plan_) : plan_;
    Graph graph = after_passes(by, {});
    const UnitCosts costs = target.unit_costs(graph);
    plan_.stage_of_unit = partition(graph, plan_, costs.seconds, costs.bytes);
    if (groups_follow_stages(plan_.training)) return;
    known_training_ = by.training;
    known_graph_ = std::move(graph);
  }

  const Plan& plan() const { return plan_; }

  Compiled lowered(const Plan& plan, const PassObserver& observe = {}) {
    Compiled compiled;
    compiled.graph = known_graph_ && !observe && plan.training == known_training_
                         ? *std::exchange(known_graph_, std::nullopt)
                         : after_passes(plan, observe);
    compiled.stages = lower(compiled.graph, plan, target_.device);
    compiled.plan = plan;
    return compiled;
  }

  // Returns the peak memory, in bytes, of the stage that needs most.
  double peak_bytes(const Compiled& compiled) const {
    double most = 0;
    for (const Program& program : compiled.stages)
      most = std::max(most, target_.peak_bytes(program));
    return most;
  }

 private:
  Graph after_passes(const Plan& plan, const PassObserver& observe) const {
    const Parallelism& p = plan.parallelism;
    return run_passes(build_graph_of_rank(model_, plan.training, p.tensor, p.sequence_parallel),
                      plan, target_.device, observe);
  }

  const Model& model_;
  const Target& target_;
  Plan plan_;
  Training known_training_;  // the settings that known_graph_ was made with
  std::optional<Graph> known_graph_;
};

// Chooses how much memory a plan saves. Saving memory costs time, so variants of the plan that save
// less are preferred if they fit into the target's memory. If none fits, the smaller one of the
// variants that save most and least is taken.
class Choice {
 public:
  Choice(Compilation& compilation, const Target& target)
      : compilation_(compilation), target_(target) {}

  Compiled made() {
    Compiled best = built(taking_most_memory(compilation_.plan()));
    if (fits(best)) return best;
    // Smaller loss blocks cost less time than recomputed rows.
    if (auto again = with_smaller_loss(best); again && fits(*again)) return *std::move(again);
    Compiled least = built(taking_least_memory(compilation_.plan()));
    if (!fits(least)) return bytes(least) < bytes(best) ? least : best;
    if (auto again = with_larger_loss(least); again && fits(*again)) return *std::move(again);
    return least;
  }

 private:
  Compiled built(const Plan& plan) { return compilation_.lowered(plan); }
  double bytes(const Compiled& compiled) const { return compilation_.peak_bytes(compiled); }
  bool fits(const Compiled& compiled) const { return bytes(compiled) <= target_.memory_bytes; }

  // Returns by how many bytes the logits of a loss block are too large for the memory of the stage
  // that computes the loss. If the result is negative, a block may grow by its absolute value.
  double missing_logits(const Compiled& compiled, const LossBlocks& blocks) const {
    const Program& program = compiled.stages[stage_of(compiled, blocks)];
    return (target_.peak_bytes(program) - target_.memory_bytes) *
           static_cast<double>(blocks.row_bytes) / static_cast<double>(blocks.memory_bytes_of_row);
  }

  static int stage_of(const Compiled& compiled, const LossBlocks& blocks) {
    const Node& node = compiled.graph.nodes[blocks.node];
    const int part = compiled.plan.stage_of_unit[compiled.graph.unit_of(node)];
    return compiled.plan.parallelism.stage_layout().stage_of(part);
  }

  // Returns the plan compiled with the largest loss block for which the stage of the loss is
  // estimated to fit. Returns nothing if the graph has no loss blocks, if the plan sets their size,
  // if another stage does not fit, or if the block would be smaller than least_loss_block_bytes.
  std::optional<Compiled> with_smaller_loss(const Compiled& compiled) {
    const LossBlocks blocks = loss_blocks(compiled.graph);
    if (blocks.rows == 0 || !leaves_loss_open(compilation_.plan())) return std::nullopt;
    const int own = stage_of(compiled, blocks);
    for (std::size_t stage = 0; stage < compiled.stages.size(); ++stage)
      if (static_cast<int>(stage) != own &&
          target_.peak_bytes(compiled.stages[stage]) > target_.memory_bytes)
        return std::nullopt;
    const double wanted = static_cast<double>(blocks.block_rows * blocks.row_bytes) -
                          missing_logits(compiled, blocks);
    if (wanted < static_cast<double>(least_loss_block_bytes)) return std::nullopt;
    return with_loss(compiled, static_cast<std::int64_t>(wanted));
  }

  std::optional<Compiled> with_larger_loss(const Compiled& compiled) {
    const LossBlocks blocks = loss_blocks(compiled.graph);
    if (blocks.block_rows == blocks.rows || !leaves_loss_open(compilation_.plan()))
      return std::nullopt;
    const double wanted = static_cast<double>(blocks.block_rows * blocks.row_bytes) -
                          missing_logits(compiled, blocks);
    return with_loss(compiled, static_cast<std::int64_t>(wanted));
  }

  Compiled with_loss(const Compiled& compiled, std::int64_t block_bytes) {
    Plan plan = compiled.plan;
    plan.training.loss_block_bytes = block_bytes;
    return built(plan);
  }

  Compilation& compilation_;
  const Target& target_;
};

// Lowers the recorded size of a loss block to the bytes of a micro-batch's logits, so that it is
// never larger than they are. Records 0 if the graph has no loss blocks.
void say_loss_block(Compiled& compiled) {
  std::int64_t& said = compiled.plan.training.loss_block_bytes;
  const LossBlocks blocks = loss_blocks(compiled.graph);
  said = std::min(said, blocks.rows * blocks.row_bytes);
}

}  // namespace

Plan taking_least_memory(Plan plan) {
  return closed(std::move(plan), true, least_loss_block_bytes);
}

Plan taking_most_memory(Plan plan) {
  return closed(std::move(plan), false, std::numeric_limits<std::int64_t>::max());
}

Plan cut_by(const Plan& plan) { return taking_most_memory(reopened(plan, Training())); }

Plan reopened(Plan plan, const Training& asked) {
  plan.training.rematerialize_rows = asked.rematerialize_rows;
  plan.training.loss_block_bytes = asked.loss_block_bytes;
  return plan;
}

Compiled compile(const Model& model, Plan plan, const Target& target, const PassObserver& observe) {
  Compilation compilation(model, std::move(plan), target);
  const Plan& cut = compilation.plan();
  const bool open = target.peak_bytes && taking_most_memory(cut) != cut;
  Compiled compiled = open ? Choice(compilation, target).made() : compilation.lowered(cut, observe);
  if (open && observe) compiled = compilation.lowered(compiled.plan, observe);
  if (open && leaves_loss_open(cut)) say_loss_block(compiled);
#ifndef NDEBUG
  verify(compiled.stages);
#endif
  return compiled;
}

}  // namespace meshwright::compiler
