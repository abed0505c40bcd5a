// Tests the choices about memory that a plan leaves to the compiler. The compiler saves only as
// much memory as the device requires.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/compiler/compile.h"
#include "models/compiler/passes/graph/fuse_loss.h"
#include "models/program/program_json.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

double arena(const Program& program) { return static_cast<double>(program.memory.arena_bytes); }

// Returns a device with `bytes` bytes of memory. All units cost the same, except that recomputation
// costs more in later units. So stages differ between a graph that saves rows and one that
// recomputes them.
Target device_with(double bytes) {
  Target target;
  target.unit_costs = [](const Graph& graph) {
    UnitCosts costs;
    costs.seconds.assign(graph.units.size(), 1);
    costs.bytes.assign(graph.units.size(), 1);
    for (const Node& node : graph.nodes)
      if (node.phase == Phase::recompute)
        costs.seconds[static_cast<std::size_t>(graph.unit_of(node))] += graph.unit_of(node);
    return costs;
  };
  target.peak_bytes = arena;
  target.memory_bytes = bytes;
  return target;
}

constexpr double plenty = 1e18;

double peak(const Compiled& compiled) {
  double most = 0;
  for (const Program& program : compiled.stages) most = std::max(most, arena(program));
  return most;
}

bool makes_again(const Compiled& compiled) {
  return std::ranges::any_of(compiled.graph.nodes,
                             [](const Node& node) { return node.phase == Phase::recompute; });
}

// Returns all instructions and addresses as text. Programs themselves are equal only if their
// settings are the same object.
std::string text_of(const Compiled& compiled) { return to_json(compiled.stages).dump(); }

Plan full_plan(const Model& model, SmallDegrees degrees = {.micro_batches = 1}) {
  Plan plan = small_plan(model, degrees);
  plan.training.compiler = CompilerLevel::full;
  return plan;
}

// Returns a model whose logits are larger than everything else.
Model model_of_much_loss() {
  Model model = small_model("gpt");
  model.vocabulary = 8192;
  model.layers = 24;
  return model;
}

// Returns a plan in which the logits of a micro-batch of `model` take at least 1 GiB.
Plan plan_of_much_loss(const Model& model) {
  Plan plan = full_plan(model);
  Training& training = plan.training;
  training.micro_batch =
      static_cast<int>((1 << 28) / (training.sequence_length * model.vocabulary)) + 1;
  training.global_batch = training.micro_batch;
  return plan;
}

}  // namespace

TEST_CASE("rows are rematerialized only if memory is short", "[models][compiler]") {
  const Model model = small_model("gpt");
  const Plan plan = full_plan(model);
  const Compiled kept = compile(model, plan, device_with(plenty));
  CHECK(kept.plan.training.rematerialize_rows == false);
  CHECK_FALSE(makes_again(kept));
  const Compiled just = compile(model, plan, device_with(peak(kept)));
  CHECK(text_of(just) == text_of(kept));
  const Compiled less = compile(model, plan, device_with(peak(kept) - 1));
  CHECK(less.plan.training.rematerialize_rows == true);
  CHECK(makes_again(less));
  CHECK(peak(less) < peak(kept));
  const Compiled none = compile(model, plan, device_with(1));  // nothing fits: the least memory
  CHECK(peak(none) == peak(less));
}

TEST_CASE("a plan's own choice of rematerialization holds, however much memory there is",
          "[models][compiler]") {
  const Model model = small_model("gpt");
  for (const bool again : {false, true})
    for (const double memory : {1.0, plenty}) {
      Plan plan = full_plan(model);
      plan.training.rematerialize_rows = again;
      CHECK(makes_again(compile(model, plan, device_with(memory))) == again);
    }
  Plan off = full_plan(model);
  off.training.passes_off = {"rematerialize_rows"};
  const Compiled without = compile(model, off, device_with(1));
  CHECK_FALSE(makes_again(without));
  CHECK_FALSE(without.plan.training.rematerialize_rows.has_value());
  Plan fused = full_plan(model);
  fused.training.compiler = CompilerLevel::fused;
  CHECK(compile(model, fused, device_with(1)).plan.training == fused.training);
}

TEST_CASE("the loss has as few blocks as memory allows", "[models][compiler]") {
  const Model model = model_of_much_loss();
  const Plan plan = plan_of_much_loss(model);
  const Compiled whole = compile(model, plan, device_with(plenty));
  const LossBlocks one = loss_blocks(whole.graph);
  REQUIRE(one.rows > 0);
  CHECK(one.block_rows == one.rows);
  CHECK(whole.plan.training.loss_block_bytes == one.rows * one.row_bytes);

  const double some = peak(whole) - static_cast<double>(300 << 20);
  const Compiled cut = compile(model, plan, device_with(some));
  const LossBlocks several = loss_blocks(cut.graph);
  CHECK(peak(cut) <= some);
  CHECK(cut.plan.training.rematerialize_rows == false);  // blocks come first
  CHECK((several.rows + several.block_rows - 1) / several.block_rows == 2);

  const Compiled least = compile(model, taking_least_memory(plan), device_with(plenty));
  const LossBlocks many = loss_blocks(least.graph);
  CHECK(many.block_rows * many.row_bytes <= least_loss_block_bytes);
  CHECK(peak(compile(model, plan, device_with(peak(least)))) == peak(least));
  // Memory that is left after the other choices goes to the loss.
  Plan small_loss = plan;
  small_loss.training.rematerialize_rows = false;
  small_loss.training.loss_block_bytes = least_loss_block_bytes;
  const double kept = peak(compile(model, small_loss, device_with(plenty)));
  REQUIRE(kept > peak(least));
  const double more = (peak(least) + kept) / 2;
  const Compiled larger = compile(model, plan, device_with(more));
  CHECK(larger.plan.training.rematerialize_rows == true);
  CHECK(peak(larger) <= more);
  CHECK(loss_blocks(larger.graph).block_rows > many.block_rows);
}

TEST_CASE("a block of logits has fewer than 2^31 elements", "[models][compiler]") {
  const Model model = model_of_much_loss();
  Plan plan = plan_of_much_loss(model);
  plan.training.global_batch = plan.training.micro_batch *= 20;
  const Compiled compiled = compile(model, plan, device_with(plenty));
  const LossBlocks blocks = loss_blocks(compiled.graph);
  CHECK(blocks.block_rows < blocks.rows);
  CHECK(blocks.block_rows * model.vocabulary < std::int64_t{1} << 31);
}

TEST_CASE("a decided plan is compiled to the same Programs again", "[models][compiler]") {
  const Model model = model_of_much_loss();
  const Plan plan = plan_of_much_loss(model);
  const double most = peak(compile(model, plan, device_with(plenty)));
  const double least = peak(compile(model, taking_least_memory(plan), device_with(plenty)));
  for (const double memory :
       {plenty, most, most - (300 << 20), least + (20 << 20), least, least - 1}) {
    const Compiled first = compile(model, plan, device_with(memory));
    const Compiled again = compile(model, first.plan, device_with(1));
    CHECK(again.plan == first.plan);
    CHECK(text_of(again) == text_of(first));
    CHECK(reopened(first.plan, plan.training).training == plan.training);
  }
}

TEST_CASE("stages are cut alike, whatever memory there is", "[models][compiler]") {
  const Model model = small_model("gpt");
  Plan plan = full_plan(model, {.pipeline = 2});
  const Compiled kept = compile(model, plan, device_with(plenty));
  const Compiled again = compile(model, plan, device_with(1));
  REQUIRE(makes_again(again));
  CHECK(again.plan.stage_of_unit == kept.plan.stage_of_unit);
  // A plan that sets the choice gets the same stages as one for which the compiler decides it.
  plan.training.rematerialize_rows = true;
  CHECK(compile(model, plan, device_with(plenty)).plan.stage_of_unit == kept.plan.stage_of_unit);
  const Compiled observed = compile(model, full_plan(model, {.pipeline = 2}), device_with(1),
                                    [](const Pass&, const Graph&, double) {});
  CHECK(text_of(observed) == text_of(again));
}
