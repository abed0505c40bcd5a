// Runs Programs of captured models on the segment backend, where a test stands for PyTorch.
#include "exec/backends/segment_backend.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/runtime/runtime.h"
#include "models/architectures/captured/captured_model.h"
#include "tests/catch.h"
#include "tests/exec/counting_world.h"
#include "tests/models/captured.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

constexpr float made_value = 0.25F;

// Counts the allocations of a world's memory.
class AllocatingWorld : public CountingWorld {
 public:
  using CountingWorld::CountingWorld;
  void* allocate(std::int64_t bytes) override {
    ++allocations;
    return CountingWorld::allocate(bytes);
  }
  int allocations = 0;
};

// Writes the same number into everything that segments make. Whole numbers stay as they are.
void fill_outputs(const OpCall& call, const OpOperands& operands, const OpContext&) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    if (call.outputs[i].dtype == Dtype::f32)
      std::fill_n(static_cast<float*>(operands.outputs[i]), call.outputs[i].shape.elements(),
                  made_value);
}

Plan captured_run_plan(int pipeline, int data, int zero) {
  Plan plan = captured_plan(pipeline, data, zero);
  plan.training.gradient_clip = 1;
  return plan;
}

// A captured model in training on the first rank of a world.
struct CapturedRun {
  CapturedRun(const Plan& plan_, const ScriptOptimizer& own)
      : plan(plan_),
        world(0, plan.degrees().ranks()),
        stages(lower_small(read_captured_json(captured_json(3)), plan)),
        backend(make_segment_backend(*cpu, fill_outputs, own)),
        loader([] {
          LoaderOptions options;
          options.sequence_length = 8;
          options.vocabulary = 1;
          return options;
        }()),
        runtime(stages, world, *backend, {1, 3, false}) {}

  StepResult step(int number) {
    return runtime.step(number, (number - 1) * plan.training.global_batch, loader);
  }
  std::string hash() { return runtime.parameters().sha256(); }

  const Plan plan;
  AllocatingWorld world;
  const std::vector<Program> stages;
  const std::unique_ptr<Backend> cpu = make_cpu_backend(1), backend;
  Loader loader;
  Runtime runtime;
};

}  // namespace

TEST_CASE("a captured model's steps allocate no memory of the run", "[exec][captured]") {
  for (const auto& [pipeline, data, zero] : {std::tuple{2, 1, 0}, {2, 2, 1}, {1, 4, 3}}) {
    CAPTURE(pipeline, data, zero);
    const ScriptOptimizer own;
    CapturedRun run(captured_run_plan(pipeline, data, zero), own);
    run.step(1);
    const int after_first = run.world.allocations;
    const std::int64_t used = run.cpu->used_bytes();
    for (int step = 2; step <= 5; ++step) run.step(step);
    CHECK(after_first > 0);
    CHECK(run.world.allocations == after_first);
    CHECK(run.cpu->used_bytes() == used);
  }
}

TEST_CASE("a script's own optimizer gets each element of a rank once, with clipped gradients",
          "[exec][captured]") {
  std::set<std::pair<int, std::int64_t>> elements;
  std::int64_t counted = 0;
  double factor = 0;
  ScriptOptimizer own{true, [&](int, std::span<const OptimizerSegment> segments,
                                const OptimizerState& state, const OptimizerScalars& scalars) {
                        for (const OptimizerSegment& each : segments)
                          for (std::int64_t i = 0; i < each.count; ++i)
                            elements.emplace(each.parameter, each.first + i), ++counted;
                        CHECK(state.weights != nullptr);
                        CHECK(state.second_moment != nullptr);
                        factor = scalars.gradient_factor;
                      }};
  CapturedRun run(captured_run_plan(1, 2, 0), own);
  const std::string before = run.hash();
  const StepResult result = run.step(1);
  CHECK(run.hash() == before);  // the inner backend's optimizer has left the weights as they were
  CHECK(counted == std::ssize(elements));
  CHECK(counted > 0);
  CHECK(std::abs(factor * (result.grad_norm + 1e-6) - 1) < 1e-9);
  own.updates = false;
  run.step(2);
  CHECK(run.hash() != before);
}
