// Tests special cases of predictions: heads of up to 64, a second gradient with and without ZeRO,
// and the memory of hosts. Also tests the limits and names of tunable constants, and the machines
// that they apply to.
#include "sim/validate/tunable_constants.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/load.h"
#include "sim/cost/cost.h"
#include "sim/predict/predict.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tests/sim/compiled.h"

using namespace meshwright::tests;

TEST_CASE("heads up to 64 are narrow, and the gradient has a share of its own", "[cost]") {
  Cluster cluster;
  Gpu& gpu = cluster.machine.gpu;
  cluster.machine.gpus = 1;
  gpu.peak_flop_per_s.fill(1e12);
  gpu.memory_bandwidth_bytes_per_s = 1e15;  // nothing waits for it
  KernelConstants& k = gpu.kernels;
  k.flash2_forward = 0.5, k.flash2_backward = 0.25, k.narrow_head = 0.8;
  StepSettings training;
  training.precision = Precision::bf16;
  training.attention = AttentionKernel::flash2;
  const auto share = [&](std::int64_t width, std::int64_t keys, bool backward) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::attention;
    kernel.m = kernel.n = keys;
    kernel.k = width;
    kernel.flops = 1e9;
    kernel.backward = backward;
    return 1e9 / 1e12 / CostModel(cluster, training).time(kernel).value;
  };
  CHECK(share(32, 512, false) == Approx(0.5 * 0.8));
  CHECK(share(64, 512, false) == Approx(0.5 * 0.8));
  CHECK(share(65, 512, false) == Approx(0.5));
  CHECK(share(128, 512, false) == Approx(0.5));
  CHECK(share(64, 512, true) == Approx(0.25 * 0.8));
  CHECK(share(128, 512, true) == Approx(0.25));
  k.attention_ramp = 512;  // so many tokens reach half of the share
  CHECK(share(128, 512, false) == Approx(0.5 / 2));
  CHECK(share(128, 1536, false) == Approx(0.5 * 3 / 4));
}

TEST_CASE("a second gradient is of all parameters, whoever steps them", "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const Model model = small_model("gpt");
  for (const int zero : {0, 1}) {
    Plan plan = small_plan(model, {.data = 8, .zero_stage = zero});
    plan.training.precision = Precision::bf16;
    plan.training.gradient_reduce = Dtype::f32;
    const auto gradients = [&](bool fuse) {
      plan.training.fuse_gradient_accumulation = fuse;
      const Compiled compiled = compiled_for(model, plan, cluster);
      return stage_memory(compiled.stages, cluster)[0]
          .class_bytes[static_cast<std::size_t>(MemoryClass::gradients)];
    };
    const Compiled compiled = compiled_for(model, plan, cluster);
    std::int64_t elements = 0;
    for (const Bucket& bucket : compiled.stages[0].buckets) elements += bucket.elements;
    CAPTURE(zero);
    // If matmuls do not add to the 32-bit gradients, there is another gradient in 16 bits.
    CHECK(gradients(false) - gradients(true) == 2 * elements);
  }
}

TEST_CASE("what waits in host memory fits up to the last byte", "[predict]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const Model model = small_model("gpt");
  Plan plan = offloading_plan(model, {.pipeline = 2, .data = 4, .micro_batches = 8},
                              Offload::activations, 2);
  plan.parallelism.schedule = ScheduleKind::gpipe;
  const Compiled compiled = compiled_for(model, plan, cluster);
  const std::int64_t needed = host_memory_bytes(compiled.stages, cluster);
  REQUIRE(needed > 0);
  // The host has four ranks of each stage.
  CHECK(needed ==
        4 * (compiled.stages[0].memory.host_bytes + compiled.stages[1].memory.host_bytes));
  const auto with = [&](std::int64_t bytes) {
    cluster.machine.host.memory_bytes = static_cast<double>(bytes);
    return predict(compiled, cluster);
  };
  CHECK(with(needed).fits);
  CHECK(with(needed).host_memory_bytes == needed);
  CHECK(with(needed).host_memory_limit_bytes == static_cast<double>(needed));
  CHECK_FALSE(with(needed - 1).fits);
}

TEST_CASE("a constant concerns the machines and GPUs whose names begin with one of its kinds",
          "[validate]") {
  TunableConstant constant = tunable_constants().front();
  const auto of = [&](const std::string& gpu, const std::string& machine) {
    Machine made;
    made.gpu.name = gpu;
    made.name = machine;
    return concerns(constant, made);
  };
  constant.kinds = {"A100", "p3"};
  CHECK(of("A100-SXM4-40GB", "other"));
  CHECK(of("other", "p3.16xlarge"));
  CHECK_FALSE(of("H100-SXM5", "p5.48xlarge"));
  CHECK_FALSE(of("an A100", "a p3"));
  constant.kinds = {};
  CHECK(of("any", "machine"));
}

TEST_CASE("constants begin between their limits, and their names are their own", "[validate]") {
  std::set<std::pair<std::string_view, std::vector<std::string>>> names;
  for (const TunableConstant& constant : tunable_constants()) {
    CAPTURE(constant.name);
    CHECK(names.insert({constant.name, constant.kinds}).second);
    CHECK(constant.spread > 0);
    CHECK(constant.low < constant.high);
    CHECK(constant.start >= constant.low);
    CHECK(constant.start <= constant.high);
    CHECK(constant.of_plan != nullptr);
  }
}
