// Tests that with no schedule, sharding, offloading or overlap two instructions access the same
// memory at the same time, and that this check notices if a wait is missing.
#include <string>

#include "models/compiler/lower/lower.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tests/models/races.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"

using namespace meshwright::tests;

namespace {

const int thinned = sanitized ? 7 : one_in(7);

// Visits combinations of schedules, stages, virtual stages, ZeRO stages, context degrees and bounds
// on active micro-batches, with and without experts. Some of them are not legal.
template <typename Visit>
void for_all_plans(const Visit& visit) {
  for (const char* family : {"gpt", "mixtral"})
    for (const ScheduleInfo& schedule : schedule_kinds())
      for (const int pipeline : {1, 2, 4})
        for (const int virtual_stages : {1, 2})
          for (const int zero : {0, 1, 2, 3})
            for (const int context : {1, 2})
              for (const int active : {0, 2}) {
                Model model = small_model(family);
                model.layers = 8;
                Plan plan = small_plan(model, {pipeline, 1, 2, 6, zero, virtual_stages, context});
                Parallelism& p = plan.parallelism;
                p.schedule = schedule.kind;
                p.active_microbatches = active;
                if (schedule.in_groups) plan.training.global_batch += 8;
                if (model.experts > 0) p.expert = 2;
                visit(model, plan);
              }
}

// Lowers a plan, looks for races and counts the plan. A plan that is not legal is not counted.
void check(const Model& model, const Plan& plan, int& plans) {
  static int turn = 0;
  if ((turn++ + draw_of_run()) % thinned != 0) return;
  std::vector<Program> stages;
  try {
    verify(plan, model.sizes());
    stages = lower_small(model, plan);
  } catch (const InputError&) {
    return;
  }
  INFO(name_of(model.architecture) << " " << describe(plan));
  CHECK(race_in(stages) == "");
  ++plans;
}

}  // namespace

TEST_CASE("no two accesses to the same memory can happen at one time",
          "[models][lower][races][release]") {
  int plans = 0;
  for_all_plans([&](const Model& model, Plan plan) {
    check(model, plan, plans);
    plan.parallelism.overlap_gradients = plan.parallelism.overlap_parameters = false;
    plan.training.recompute = Recompute::full;
    check(model, plan, plans);
    plan.parallelism.reduce_gradients = ReduceGradients::each;
    check(model, plan, plans);
    plan.parallelism.overlap_gradients = plan.parallelism.overlap_parameters = true;
    plan.parallelism.keeps_gathered = true;
    check(model, plan, plans);
    plan.parallelism.reduce_gradients = ReduceGradients::last;
    check(model, plan, plans);
  });
  CHECK(plans > 600 / thinned);
}

TEST_CASE(
    "no two accesses to the same memory race in tensor groups, sharded further, or with dropout",
    "[models][lower][races]") {
  const Model model = small_model("gpt");
  int plans = 0;
  for (Plan plan : small_plans(model)) {
    check(model, plan, plans);
    plan.parallelism.overlap_tensor = true;
    check(model, plan, plans);
    plan.parallelism.tensor_chunks = 4;
    check(model, plan, plans);
    plan.parallelism.tensor_chunks = 2;
    plan.training.precision = Precision::fp8;
    check(model, plan, plans);
    plan.training.precision = Precision::nvfp4;
    check(model, plan, plans);
    plan.training.dropout = 0.1;
    plan.training.precision = Precision::fp16;
    plan.training.compiler = CompilerLevel::full;
    plan.parallelism.max_live_parameters = 1;
    check(model, plan, plans);
  }
  CHECK(plans > 400 / thinned);
}

TEST_CASE("no two accesses to the same memory race if embedding and head have chunks of their own",
          "[models][lower][races]") {
  Model model = small_model("gpt");
  model.layers = 2;
  int plans = 0;
  for (const ScheduleInfo& schedule : schedule_kinds())
    for (const int zero : {0, 2, 3})
      for (const CompilerLevel level : {CompilerLevel::fused, CompilerLevel::full}) {
        const int chunks = schedule.most_chunks > 1 ? 2 : 1;
        Plan plan = small_plan(model, {4 / chunks, 1, 2, 8, zero, chunks});
        plan.parallelism.schedule = schedule.kind;
        plan.parallelism.partitioner = Partitioner::manual;
        plan.parallelism.manual_stage = {
            {"transformer.wte", 0}, {"transformer.h.0", 1}, {"transformer.h.1", 2}, {"lm_head", 3}};
        plan.training.compiler = level;
        check(model, plan, plans);
      }
  CHECK(plans >= (4 * 3 - 1) * 2 / thinned);
}

TEST_CASE("no two accesses to the same memory race when activations are offloaded",
          "[models][lower][races]") {
  int plans = 0;
  for (const char* family : {"gpt", "bert"})
    for (const Offload offload : {Offload::activations, Offload::layers})
      for (const SmallDegrees degrees :
           {SmallDegrees{1, 1, 1, 6}, SmallDegrees{2, 1, 1, 6}, SmallDegrees{4, 1, 1, 8},
            SmallDegrees{2, 2, 1, 4}, SmallDegrees{2, 1, 1, 8, 0, 2}, SmallDegrees{2, 1, 2, 6, 3}})
        for (const bool gpipe : {false, true})
          for (const int horizon : {1, 2, 3}) {
            if (gpipe && degrees.virtual_stages > 1) continue;
            const Model model = small_model(family);
            Plan plan = offloading_plan(model, degrees, offload, horizon);
            if (gpipe) plan.parallelism.schedule = ScheduleKind::gpipe;
            plan.parallelism.sequence_parallel = degrees.tensor > 1 && gpipe;
            check(model, plan, plans);
          }
  CHECK(plans >= 2 * 2 * (5 * 2 + 1) * 3 / thinned);
}

TEST_CASE("no two accesses to the same memory race when optimizer states are offloaded",
          "[models][lower][races]") {
  int plans = 0;
  for (const char* family : {"gpt", "llama"})
    for (const OptimizerKind optimizer :
         {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::sgd})
      for (const std::int64_t bucket_bytes : {8'192, 1 << 30})
        for (const SmallDegrees degrees :
             {SmallDegrees{1, 1, 1, 2}, SmallDegrees{2, 1, 1, 4}, SmallDegrees{1, 2, 2, 2},
              SmallDegrees{1, 1, 2, 2, 1}, SmallDegrees{1, 1, 2, 1, 2}, SmallDegrees{1, 1, 2, 2, 3},
              SmallDegrees{2, 1, 2, 4, 3}})
          for (const CompilerLevel level : {CompilerLevel::none, CompilerLevel::full}) {
            const Model model = small_model(family);
            Plan plan = small_plan(model, degrees);
            plan.training.optimizer = optimizer;
            plan.training.compiler = level;
            plan.training.precision = Precision::fp16;
            plan.parallelism.reduce_bucket_bytes = bucket_bytes;
            plan.parallelism.offload = Offload::optimizer;
            check(model, plan, plans);
          }
  CHECK(plans >= 2 * 3 * 2 * 7 * 2 / thinned);
}

namespace {

bool shares_slots(const std::vector<Program>& stages) {
  for (const Program& program : stages)
    for (int chunk = 0; chunk < program.layout.chunks; ++chunk)
      if (program.memory.pool_of(chunk) != chunk) return true;
  return false;
}

}  // namespace

TEST_CASE("no two accesses to the same memory race when chunks share slots",
          "[models][lower][races][slots][release]") {
  int plans = 0, sharing = 0;
  for (const char* family : {"gpt", "llama", "bert"})
    for (const int pipeline : {2, 4})
      for (const int tensor : {1, 2})
        for (const int zero : {0, 2, 3})
          for (const Recompute recompute : {Recompute::none, Recompute::full})
            for (const Offload offload : {Offload::none, Offload::activations, Offload::layers}) {
              if (offload != Offload::none && recompute != Recompute::full) continue;
              Model model = small_model(family);
              model.layers = 12;
              Plan plan =
                  small_plan(model, {pipeline, tensor, zero > 0 ? 2 : 1, 4 * pipeline, zero, 3});
              plan.training.recompute = recompute;
              plan.parallelism.offload = offload;
              plan.parallelism.sequence_parallel = tensor > 1 && zero == 0;
              plan.parallelism.pipeline_scatter_gather = tensor > 1 && zero == 2;
              check(model, plan, plans);
              sharing += shares_slots(lower_small(model, plan));
            }
  CHECK(plans > 100 / thinned);
  CHECK(sharing > 30);
}

namespace {

// Returns whether other waits already enforce this one, wherever the instruction runs.
bool is_implied(const Program& without, int body, int instruction, const Wait& wait) {
  const RunOrder order(without);
  for (int task = 0; task < static_cast<int>(without.tasks.size()); ++task) {
    const Task& runs_it = without.tasks[static_cast<std::size_t>(task)];
    if (runs_it.body != body) continue;
    const auto& list = without.bodies[static_cast<std::size_t>(body)].instructions;
    if (!runs(list[static_cast<std::size_t>(instruction)], runs_it)) continue;
    const RunId awaited = resolve(without, task, wait);
    if (awaited.task >= 0 && !order.before(awaited, {task, instruction})) return false;
  }
  return true;
}

// Returns whether a wait exists by a general rule, even if memory does not require it:
// communication waits for the computation before it, the end of a step waits for all reductions,
// and some instructions wait for the previous task.
bool is_rule(const Body& body, std::size_t waiting, const Wait& wait) {
  if (body.kind == Body::Kind::step_end) return true;
  if (body.instructions[waiting].stream == Stream::compute ||
      wait.relation != Wait::Relation::same_task)
    return wait.relation == Wait::Relation::previous_task;
  std::size_t latest = waiting;
  while (latest > 0 && body.instructions[--latest].stream != Stream::compute) {
  }
  return static_cast<int>(latest) == wait.instruction;
}

}  // namespace

TEST_CASE("each wait that is left out is noticed", "[models][lower][races]") {
  struct Case {
    const char* family;
    SmallDegrees degrees;
    void (*change)(Plan&);
    int layers = 4;
  };
  const Case cases[] = {
      {"gpt", {2, 1, 2, 6, 2, 2}, [](Plan&) {}},
      {"gpt", {1, 1, 2, 4, 3}, [](Plan& p) { p.training.recompute = Recompute::full; }},
      {"gpt",
       {1, 1, 2, 4, 0},
       [](Plan& p) { p.parallelism.reduce_gradients = ReduceGradients::each; }},
      {"gpt",
       {2, 1, 2, 6, 3},
       [](Plan& p) {
         p.parallelism.reduce_gradients = ReduceGradients::last;
         p.parallelism.keeps_gathered = true;
       }},
      {"gpt", {2, 2, 1, 4}, [](Plan& p) { p.parallelism.sequence_parallel = true; }},
      {"gpt",
       {1, 4, 1, 4},
       [](Plan& p) {
         p.parallelism.overlap_tensor = true;
         p.parallelism.tensor_chunks = 2;
       }},
      {"llama",
       {1, 2, 1, 4},
       [](Plan& p) {
         p.parallelism.sequence_parallel = p.parallelism.overlap_tensor = true;
         p.parallelism.tensor_chunks = 4;
       }},
      {"llama",
       {1, 2, 1, 4},
       [](Plan& p) {
         p.training.precision = Precision::fp8;
         p.parallelism.sequence_parallel = p.parallelism.overlap_tensor = true;
         p.parallelism.tensor_chunks = 2;
       }},
      {"gpt", {1, 1, 1, 4, 0, 1, 2}, [](Plan&) {}},
      {"gpt", {2, 1, 1, 6}, [](Plan& p) { p.parallelism.schedule = ScheduleKind::zero_bubble; }},
      {"mixtral", {1, 1, 2, 4, 1}, [](Plan& p) { p.parallelism.expert = 2; }},
      {"gpt",
       {2, 1, 1, 6},
       [](Plan& p) {
         p.training.recompute = Recompute::full;
         p.parallelism.offload = Offload::activations;
         p.parallelism.offload_horizon = 1;
       }},
      {"gpt",
       {1, 1, 2, 2, 1},
       [](Plan& p) {
         p.training.optimizer = OptimizerKind::lamb;
         p.parallelism.offload = Offload::optimizer;
         p.parallelism.reduce_bucket_bytes = 8'192;
       }},
      // In this plan, chunks share slots.
      {"gpt", {2, 1, 1, 8, 0, 3}, [](Plan&) {}, 12}};
  int noticed = 0;
  for (const Case& each : cases) {
    Model model = small_model(each.family);
    model.layers = each.layers;
    Plan plan = small_plan(model, each.degrees);
    each.change(plan);
    std::vector<Program> stages = lower_small(model, plan);
    for (std::size_t stage = 0; stage < stages.size(); ++stage)
      for (std::size_t b = 0; b < stages[stage].bodies.size(); ++b)
        for (std::size_t i = 0; i < stages[stage].bodies[b].instructions.size(); ++i) {
          std::vector<Wait>& waits = stages[stage].bodies[b].instructions[i].waits;
          const std::vector<Wait> all = waits;
          for (std::size_t w = 0; w < all.size(); ++w) {
            waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
            if (!is_implied(stages[stage], static_cast<int>(b), static_cast<int>(i), all[w])) {
              INFO(each.family << " " << describe(plan) << ": stage " << stage << " body " << b
                               << " instruction " << i << " wait " << w);
              const bool is_noticed = race_in(stages) != "";
              CHECK((is_noticed || is_rule(stages[stage].bodies[b], i, all[w])));
              noticed += is_noticed;
            }
            waits = all;
          }
        }
  }
  CHECK(noticed > 350);
}
