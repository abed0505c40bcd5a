// Trains on the emulated device, with ranks that talk over the emulated NCCL, and compares it with
// training on the CPU over MPI. mpirun runs this, with the plans for its number of ranks.
#include <cmath>

#include "exec/backends/cuda/cuda_backend.h"
#include "exec/comm/checked.h"
#include "exec/comm/nccl.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"
#include "tests/exec/worlds.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

constexpr int steps = 3;  // the second is captured, the third replayed

Trained train_on_device(const Model& model, const Plan& plan, bool trace = false) {
  const TestFolder folder;
  const std::shared_ptr<CudaBackend> backend =
      make_cuda_backend({.deterministic = true, .folder = folder.path()});
  const auto world = make_nccl_world(test_world(), *backend, 300, true);
  SmallRun run(model, plan, *world, backend);
  run.runtime.trace(trace);
  return train(run);
}

// Returns the plan with the operations of an eager framework. How they are split and what is
// communicated is the same at all compiler levels.
Plan eager(const Plan& plan) {
  Plan made = in_few_steps(plan, steps);
  made.training.compiler = CompilerLevel::none;
  made.training.attention = AttentionKernel::unfused;
  made.training.cuda_graph = true;
  return made;
}

// Returns ||a - b|| / ||b|| over all parameters.
double distance(const Values& a, const Values& b) {
  double squares = 0, norm = 0;
  for (const auto& [name, values] : b)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(a.at(name)[i]) - static_cast<double>(values[i]);
      squares += difference * difference;
      norm += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
  return norm == 0 ? 0 : std::sqrt(squares / norm);
}

void check_same(const Trained& found, const Trained& expected) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    CHECK(found.losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
    CHECK(found.norms[i] == Approx(expected.norms[i]).epsilon(1e-5));
  }
  CHECK(distance(found.parameters, expected.parameters) <= 1e-5);
}

}  // namespace

TEST_CASE("over NCCL a device trains as the CPU does, whatever the degrees", "[nccl]") {
  World& world = test_world();
  const Model model = small_model("gpt");
  int met = 0, plans = 0;
  for (const Plan& each : small_plans(model)) {
    // Recomputation only repeats operations and collectives that the other plans have too, so plans
    // with it are skipped.
    if (each.parallelism.degrees().ranks() != world.size() ||
        each.training.recompute != Recompute::none)
      continue;
    if (world.size() == 4 && met++ % 3 != 0) continue;  // there are many
    const Plan plan = eager(each);
    INFO(describe(plan));
    SmallRun near(model, plan, world);
    check_same(train_on_device(model, plan), train(near));
    ++plans;
  }
  CHECK(plans >= (world.size() == 1 ? 1 : 8));
}

TEST_CASE("over NCCL the same degrees give the same bits", "[nccl]") {
  const int ranks = test_world().size();
  const Model model = small_model("gpt");
  const Plan plan = eager(small_plan(model, {.data = ranks, .zero_stage = ranks == 1 ? 0 : 3}));
  CHECK(train_on_device(model, plan).hash == train_on_device(model, plan).hash);
}

TEST_CASE("over NCCL ranks that agree are left alone by the check of collectives", "[nccl]") {
  const int ranks = test_world().size();
  const Model model = small_model("gpt");
  for (const SmallDegrees degrees : {SmallDegrees{.tensor = ranks}, {.pipeline = ranks}}) {
    const Plan plan = eager(small_plan(model, degrees));
    const TestFolder folder;
    const std::shared_ptr<CudaBackend> backend =
        make_cuda_backend({.deterministic = true, .folder = folder.path()});
    const auto world = make_nccl_world(test_world(), *backend, 300);
    const auto checked = make_checked_world(*world);
    SmallRun run(model, plan, *checked, backend);
    CHECK(train(run).hash == train_on_device(model, plan).hash);
  }
}

// With a trace the host waits after each instruction, but only for that instruction, and not for
// messages that other ranks may begin only later.
TEST_CASE("over NCCL a traced step goes on while messages are under way", "[nccl]") {
  const int ranks = test_world().size();
  if (ranks == 1) return;
  const Model model = small_model("gpt");
  for (const ScheduleKind schedule :
       {ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zero_bubble_v}) {
    const bool in_chunks = schedule != ScheduleKind::one_f_one_b;
    const bool fits = ranks == 2;  // 4 blocks
    if (ranks == 3 || (in_chunks && !fits)) continue;
    Plan plan = eager(small_plan(model, {.pipeline = ranks, .virtual_stages = in_chunks ? 2 : 1}));
    plan.parallelism.schedule = schedule;
    INFO(describe(plan));
    CHECK(train_on_device(model, plan, true).hash == train_on_device(model, plan).hash);
  }
}
