// Compares the planner's bound of a pipeline's end with values computed by hand, for made-up tasks:
// filling and draining, messages, what a backward does before and after its gradient, collectives
// that the next task hides, reductions, and the optimizer.
#include "sim/planner/pipeline_bound.h"

#include "models/compiler/schedule/schedule.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

constexpr double f = 3, b = 5;  // seconds of a forward and of a backward task
constexpr int batches = 4;

PartTimes part_of(double forward, double backward) {
  PartTimes part;
  part.forward = forward;
  part.backward = backward;
  return part;
}

// A pipeline of stages with one part each, and all forwards before all backwards unless `schedule`
// is another one.
struct Scene {
  std::vector<PartTimes> parts;
  PerParameter per_parameter;
  std::vector<double> onwards, back;
  StageLayout layout;
  std::vector<StageOrder> orders;
  int micro_batches = batches;

  explicit Scene(int stages, ScheduleKind schedule = ScheduleKind::gpipe) {
    layout.stages = stages;
    parts.assign(static_cast<std::size_t>(stages), part_of(f, b));
    onwards.assign(parts.size() - 1, 0.0);
    back = onwards;
    for (int stage = 0; stage < stages; ++stage)
      orders.push_back(schedule_info(schedule).order({stages, 1, batches}, stage));
  }
  double end() const {
    PipelineTimes times;
    times.layout = layout;
    times.orders = &orders;
    times.micro_batches = micro_batches;
    times.parts = &parts;
    times.onwards = onwards;
    times.back = back;
    times.per_parameter = &per_parameter;
    return pipeline_bound(times);
  }
};

// Returns a pipeline of two stages with two chunks each, and one micro-batch.
Scene two_chunks(StageShape shape) {
  Scene scene(2);
  scene.layout = {2, 2, shape};
  scene.parts.assign(4, part_of(f, b));
  scene.micro_batches = 1;
  const StageOrder order = {{TaskKind::forward, 0, 0},
                            {TaskKind::forward, 1, 0},
                            {TaskKind::backward, 1, 0},
                            {TaskKind::backward, 0, 0}};
  scene.orders = {order, order};
  return scene;
}

}  // namespace

TEST_CASE("a pipeline of equal stages fills and drains", "[planner]") {
  for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (const int stages : {1, 2, 4})
      CHECK(Scene(stages, schedule).end() == (batches + stages - 1) * (f + b));
}

TEST_CASE("the slowest stage of a pipeline decides, beside its first and last tasks", "[planner]") {
  Scene last(2), first(2);
  last.parts[1] = part_of(7, 11);
  CHECK(last.end() == f + batches * (7.0 + 11) + b);
  first.parts[0] = part_of(7, 11);
  CHECK(first.end() == batches * 7.0 + f + b + batches * 11.0);
}

TEST_CASE("messages are on the way once where tasks are longer, else one after the other",
          "[planner]") {
  Scene short_ones(2), long_ones(2);
  short_ones.onwards = {2}, short_ones.back = {1};
  CHECK(short_ones.end() == (batches + 1) * (f + b) + 2 + 1);
  long_ones.onwards = {20}, long_ones.back = {10};
  CHECK(long_ones.end() == f + batches * 20.0 + f + b + batches * 10.0 + b);
}

TEST_CASE("chunks send to the next stage, back, or to nobody where both are on one stage",
          "[planner]") {
  Scene loop = two_chunks(StageShape::loop), vee = two_chunks(StageShape::vee);
  loop.onwards = vee.onwards = {100};
  loop.back = vee.back = {10};
  CHECK(loop.end() == 4 * (f + b) + 3 * 100 + 3 * 10);
  CHECK(vee.end() == 4 * (f + b) + 2 * 100 + 2 * 10);
}

TEST_CASE("a backward begins before its gradient is there, and sends before it ends", "[planner]") {
  Scene before(2), after(2), more_than_the_wait(2);
  before.parts[0].before_gradient = 2;
  CHECK(before.end() == (batches + 1) * (f + b) - 2);
  after.parts[1].after_gradient = 2;
  CHECK(after.end() == (batches + 1) * (f + b) - 2);
  // The end is never earlier than the last stage has finished its own tasks.
  more_than_the_wait.parts[0].before_gradient = 100;
  CHECK(more_than_the_wait.end() == f + batches * (f + b));
}

TEST_CASE("the next task hides the last collective of a task until it needs the links itself",
          "[planner]") {
  constexpr double last = 2;
  for (const double until : {1.0, 2.0, 2.5}) {
    Scene scene(1);
    PartTimes& part = scene.parts[0];
    part.forward_last = part.backward_last = last;
    part.until_collective_forward = part.until_collective_backward = until;
    CHECK(scene.end() == batches * (f + b) - (2 * batches - 1) * std::min(last, until));
  }
  Scene of_forward(1), of_backward(1);
  of_forward.parts[0].forward_last = last;
  of_forward.parts[0].until_collective_forward = 100;  // the backward hides none
  CHECK(of_forward.end() == batches * (f + b) - (batches - 1) * last);
  of_backward.parts[0].backward_last = last;
  of_backward.parts[0].until_collective_backward = 100;
  CHECK(of_backward.end() == batches * (f + b) - (batches - 1) * last);
}

TEST_CASE("deferred weight gradients fill the time in which a stage waits", "[planner]") {
  Scene one(1, ScheduleKind::zero_bubble), two(2, ScheduleKind::zero_bubble);
  for (Scene* scene : {&one, &two})
    for (PartTimes& part : scene->parts) part = part_of(2, 4), part.weights = 2;
  CHECK(one.end() == batches * 6.0);
  CHECK(two.end() == batches * 6.0 + 2);
  // The previous stage waits for the whole backward except for its deferred weight gradients, which
  // here include the part after the gradient.
  Scene short_one(2);
  const StageOrder order = {
      {TaskKind::forward, 0, 0}, {TaskKind::backward, 0, 0}, {TaskKind::weights, 0, 0}};
  short_one.micro_batches = 1;
  short_one.orders = {order, order};
  short_one.parts[1].weights = 2;
  short_one.parts[1].after_gradient = 1;
  CHECK(short_one.end() == 2 * f + (b - 2) + b);
}

TEST_CASE("final reductions and the optimizer each take as long as on the stage that takes longest",
          "[planner]") {
  Scene scene(2);
  scene.parts[0].parameters = {10, 0};
  scene.parts[1].parameters = {0, 4};
  scene.per_parameter.others.finish = 0.5;
  scene.per_parameter.others.optimizer = 0.25;
  scene.per_parameter.experts.gather = 2;
  const double whole = (batches + 1) * (f + b);
  CHECK(scene.end() == whole + 10 * 0.5 + 4 * 2);
  // The last stage finishes its gradients one backward earlier.
  scene.per_parameter.experts.finish = 3;
  CHECK(scene.end() == whole - b + 4 * 3 + 4 * 2);
  scene.per_parameter.others.optimizer = 1;
  CHECK(scene.end() == whole - b + 4 * 3 + 10 * 1);
}

TEST_CASE("reductions of the last backward begin unit by unit, one after the other", "[planner]") {
  Scene scene(1);
  PartTimes& part = scene.parts[0];
  part.units = {{2, {1, 0}}, {2, {0, 10}}, {1, {1, 0}}};
  part.parameters = {2, 10};
  scene.per_parameter.others.hidden_last = 1;
  scene.per_parameter.experts.hidden_last = 0.1;
  const double all = batches * (f + b);
  CHECK(scene.end() == Approx(all - b + 4 + 1));  // each is hidden; the last begins with its unit
  scene.per_parameter.experts.hidden_last = 1;
  CHECK(scene.end() == Approx(all - b + 2 + 10 + 1));
  scene.per_parameter.others.hidden_last = 5;
  CHECK(scene.end() == Approx(all - b + 5 + 10 + 5));
  // If weight gradients are deferred, the bound assumes that the reductions of all units may begin
  // with the weights task.
  Scene split(1, ScheduleKind::zero_bubble);
  split.per_parameter.others.hidden_last = 1;
  split.parts[0].weights = 2;
  split.parts[0].units = {{2, {1, 0}}, {3, {40, 0}}};
  CHECK(split.end() == Approx((batches - 1) * (f + b) + f + 41));
}

TEST_CASE("reductions of every micro-batch go on beside tasks, or decide", "[planner]") {
  Scene scene(1, ScheduleKind::one_f_one_b);
  scene.parts[0].parameters = {2, 0};
  scene.per_parameter.others.reduce_each = 1;
  // The last reduction begins with the last backward.
  CHECK(scene.end() == batches * (f + b));
  scene.per_parameter.others.reduce_each = 3.5;
  CHECK(scene.end() == (batches - 1) * (f + b) + f + 7);
  scene.per_parameter.others.reduce_each = 50;
  CHECK(scene.end() == f + batches * 100.0);
}
