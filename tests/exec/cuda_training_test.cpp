// Trains small models on GPUs and on the CPU and compares them: the runtime, the CUDA backend, its
// streams and captured steps, over NCCL and over host memory.
#include <algorithm>

#include "exec/backends/cuda/cuda_backend.h"
#include "exec/comm/nccl.h"
#include "exec/comm/staged.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"
#include "tests/exec/tested_device.h"
#include "tests/exec/worlds.h"
#include "tests/one_in.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

constexpr int steps = 4;  // the first is issued, the second captured, the others replayed

enum class Over { host, nccl };

Trained train_on_gpu(const Model& model, const Plan& plan, World& host, Over over) {
  static const TestFolder folder;  // kernels that one run compiles serve the next one
  const std::shared_ptr<CudaBackend> gpu =
      make_cuda_backend({.device = host.rank() % std::max(cuda_devices(), 1),
                         .deterministic = true,
                         .folder = folder.path()});
  const auto world =
      over == Over::nccl ? make_nccl_world(host, *gpu, 60) : make_staged_world(host, *gpu);
  SmallRun run(model, plan, *world, gpu);
  return train(run);
}

Plan trained_as(const Plan& plan, Precision precision, bool drops) {
  Plan made = in_few_steps(plan, steps);
  made.training.precision = precision;
  made.training.dropout = drops ? 0.1 : 0;
  return made;
}

void compare(const Trained& found, const Trained& expected, double tolerance) {
  for (std::size_t i = 0; i < steps; ++i) {
    CHECK(found.losses[i] == Approx(expected.losses[i]).epsilon(tolerance));
    CHECK(found.norms[i] == Approx(expected.norms[i]).epsilon(10 * tolerance));
  }
}

}  // namespace

namespace {

void train_on_one_gpu(CompilerLevel level) {
  World& world = test_world();
  if (world.size() > 1) return;
  const Precision precision = GENERATE(Precision::fp32, Precision::bf16, Precision::fp16);
  for (const char* family : {"gpt", "llama"}) {
    // One family runs in bf16, the other in fp32 and fp16, unless all are tried.
    if (!all_are_tried() && (precision == Precision::bf16) != (std::string_view(family) == "gpt"))
      continue;
    const Model model = small_model(family);
    Plan plan = trained_as(small_plan(model, {}), precision, std::string_view(family) == "gpt");
    plan.training.compiler = level;
    if (level == CompilerLevel::none) plan.training.attention = AttentionKernel::unfused;
    INFO(family << " " << describe(plan));
    SmallRun on_cpu(model, plan, world);
    const Trained expected = train(on_cpu), found = train_on_gpu(model, plan, world, Over::host);
    compare(found, expected, precision == Precision::fp32 ? 1e-5 : 1e-2);
    CHECK(train_on_gpu(model, plan, world, Over::nccl) == found);
  }
}

}  // namespace

TEST_CASE("a GPU trains as the CPU does: level none", "[exec][cuda]") {
  train_on_one_gpu(CompilerLevel::none);
}

TEST_CASE("a GPU trains as the CPU does: level fused", "[exec][cuda]") {
  train_on_one_gpu(CompilerLevel::fused);
}

TEST_CASE("a GPU trains as the CPU does: level full", "[exec][cuda]") {
  train_on_one_gpu(CompilerLevel::full);
}

TEST_CASE("GPUs train together as CPUs do", "[exec][cuda][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  int tried = 0;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    for (const Plan& each : small_plans(model)) {
      if (each.parallelism.degrees().ranks() != world.size() || tried++ % (12 * one_in(10)) != 0)
        continue;
      const Plan plan = trained_as(each, Precision::fp32, std::string_view(family) == "gpt");
      INFO(family << " " << describe(plan));
      SmallRun on_cpu(model, plan, world);
      const Trained expected = train(on_cpu);
      for (const Over over : {Over::host, Over::nccl}) {
        if (over == Over::nccl && world.size() > cuda_devices() && !nccl_shares_devices()) continue;
        const Trained found = train_on_gpu(model, plan, world, over);
        compare(found, expected, 1e-5);
      }
    }
  }
}

TEST_CASE("GPUs that share sequences train as CPUs do", "[exec][cuda][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  const Model model = small_model("llama");
  using enum ContextExchange;
  for (const ContextExchange exchange : {p2p, all_to_all, a2a_p2p}) {
    if (exchange == a2a_p2p && world.size() % 4 != 0) continue;
    Plan plan = trained_as(small_plan(model, {.context = world.size()}), Precision::fp32, true);
    plan.parallelism.context_exchange = exchange;
    if (exchange == a2a_p2p) plan.parallelism.context_heads = 2;
    INFO(describe(plan));
    SmallRun on_cpu(model, plan, world);
    const Trained expected = train(on_cpu);
    for (const Over over : {Over::host, Over::nccl}) {
      if (over == Over::nccl && world.size() > cuda_devices() && !nccl_shares_devices()) continue;
      compare(train_on_gpu(model, plan, world, over), expected, 1e-5);
    }
  }
}

TEST_CASE("states that come to GPUs for their step change no bit", "[exec][cuda][mpi]") {
  World& world = test_world();
  const Model model = small_model("gpt");
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
      if (!all_are_tried() && (precision == Precision::bf16) != (optimizer == OptimizerKind::adamw))
        continue;
      const int zero = world.size() > 1 && optimizer == OptimizerKind::adamw ? 1 : 0;
      Plan plan = trained_as(small_plan(model, {.data = world.size(), .zero_stage = zero}),
                             precision, false);
      plan.training.optimizer = optimizer;
      plan.parallelism.reduce_bucket_bytes = 8'192;
      for (const Over over : {Over::host, Over::nccl}) {
        if (over == Over::nccl && world.size() > cuda_devices() && !nccl_shares_devices()) continue;
        INFO(describe(plan));
        plan.parallelism.offload = Offload::none;
        const Trained kept = train_on_gpu(model, plan, world, over);
        plan.parallelism.offload = Offload::optimizer;
        CHECK(train_on_gpu(model, plan, world, over) == kept);
      }
    }
}

TEST_CASE("GPUs sum and gather chunks beside products as CPUs do", "[exec][cuda][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  for (const char* family : {"gpt", "llama"})
    for (const bool rows : {false, true}) {
      if (!all_are_tried() && rows != (std::string_view(family) == "llama")) continue;
      const Model model = small_model(family);
      Plan plan = trained_as(small_plan(model, {.tensor = world.size()}), Precision::fp32, false);
      plan.parallelism.sequence_parallel = rows;
      plan.parallelism.overlap_tensor = true;
      plan.parallelism.tensor_chunks = 2;
      INFO(family << " " << describe(plan));
      SmallRun on_cpu(model, plan, world);
      const Trained expected = train(on_cpu);
      for (const Over over : {Over::host, Over::nccl}) {
        if (over == Over::nccl && world.size() > cuda_devices() && !nccl_shares_devices()) continue;
        compare(train_on_gpu(model, plan, world, over), expected, 1e-5);
      }
    }
}
