// Tests that steps of frameworks cost what kernels were measured to reach, and steps of this engine
// what its fitted constants say.
#include <cmath>
#include <random>

#include "hwprofiles/load.h"
#include "models/core/json.h"
#include "sim/cost/cost.h"
#include "sim/validate/case.h"
#include "sim/validate/framework_of_source.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

Kernel product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.kind = Kernel::Kind::gemm,
          .m = m,
          .n = n,
          .k = k,
          .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
}

StepSettings step_of(Framework framework) {
  StepSettings settings;
  settings.precision = Precision::bf16;
  settings.framework = framework;
  return settings;
}

// Does the same as nearest_product(), slowly: compares the distances of all measured shapes.
const MeasuredProduct& nearest_of_all(const MeasuredRates& rates, const Kernel& wanted) {
  const auto apart = [](std::int64_t one, std::int64_t other) {
    const double ratio = std::log(static_cast<double>(one) / static_cast<double>(other));
    return ratio * ratio;
  };
  return *std::ranges::min_element(rates.products.measured, {}, [&](const MeasuredProduct& each) {
    return apart(wanted.m, each.m) + apart(wanted.n, each.n) + apart(wanted.k, each.k);
  });
}

}  // namespace

TEST_CASE("the nearest measured product is the one of the least distance", "[cost]") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> powers(4, 18);
  const auto size = [&] { return static_cast<std::int64_t>(std::exp2(powers(random))); };
  for (const char* machine : {"dgx-a100-80gb", "dgx-h100", "dgx-b200"}) {
    const MeasuredRates& rates = *measured_rates(load_machine(machine).gpu);
    for (int drawn = 0; drawn < 200; ++drawn) {
      const Kernel wanted = product(size(), size(), size());
      const MeasuredProduct& near = nearest_product(rates.products, wanted.m, wanted.n, wanted.k);
      const MeasuredProduct& slow = nearest_of_all(rates, wanted);
      INFO(machine << " " << wanted.m << " " << wanted.n << " " << wanted.k);
      CHECK((near.m == slow.m && near.n == slow.n && near.k == slow.k));
    }
  }
}

TEST_CASE("a framework's kernels take what they were measured to take", "[cost]") {
  const Cluster cluster{load_machine("dgx-a100-80gb"), 1, 8, {}, {}};
  const Gpu& gpu = cluster.machine.gpu;
  const CostModel ours(cluster, step_of(Framework::meshwright));
  const CostModel theirs(cluster, step_of(Framework::transformers));

  const Kernel linear = product(8192, 4096, 4096);  // a row of hwprofiles/measured/a100.json
  CHECK(linear.flops / (theirs.time(linear).value - gpu.kernel_latency_s) ==
        Approx(265.4e12).epsilon(0.001));
  CHECK(ours.time(linear).value < theirs.time(linear).value);

  // Kernels that memory bounds move their bytes once, without a correction factor.
  const Kernel copy{.bytes = 1e9};
  CHECK(theirs.time(copy).value ==
        Approx(1e9 / (gpu.memory_bandwidth_bytes_per_s * gpu.memory_bound.at(1e9)) +
               gpu.kernel_latency_s));

  // FlashAttention-2 reaches a higher speed for longer sequences.
  const auto reached = [&](std::int64_t keys) {
    const Kernel attention{
        .kind = Kernel::Kind::attention, .m = keys, .n = keys, .k = 128, .flops = 1e15};
    return attention.flops / theirs.time(attention).value;
  };
  CHECK(reached(131072) > 1.1 * reached(4096));
  CHECK(reached(131072) < 0.66 * gpu.peak(Precision::bf16).value);
}

TEST_CASE("steps of Megatron-LM, under XLA and on calibrated computers have fitted constants",
          "[cost]") {
  Cluster cluster{load_machine("dgx-a100-80gb"), 1, 8, {}, {}};
  const Kernel linear = product(8192, 4096, 4096);
  const auto time_of = [&](Framework framework) {
    return CostModel(cluster, step_of(framework)).time(linear).value;
  };
  CHECK(time_of(Framework::megatron_lm) == time_of(Framework::meshwright));
  CHECK(time_of(Framework::jax) == time_of(Framework::meshwright));
  CHECK(time_of(Framework::pytorch) != time_of(Framework::meshwright));
  cluster.machine.calibration = Calibration::this_machine;
  CHECK(time_of(Framework::pytorch) == time_of(Framework::meshwright));
}

TEST_CASE("a source's repository says whose steps it has", "[validate]") {
  CHECK(framework_of_source("github pytorch/torchtitan benchmarks") == Framework::torchtitan);
  CHECK(framework_of_source("github NVIDIA-NeMo/Megatron-Bridge docs; also NVIDIA/Megatron-LM") ==
        Framework::megatron_bridge);
  CHECK(framework_of_source("github InternLM/xtuner docs; Pai-Megatron-Patch 2b201af") ==
        Framework::megatron_lm);
  CHECK(framework_of_source("arXiv 2205.05198, Table 5") == Framework::meshwright);
}

TEST_CASE("a published row has its source's framework, unless it names one", "[validate]") {
  StepRow row;
  row.id = "row";
  row.job = R"({"model": "gpt2", "training": {"global_batch": 8, "sequence_length": 512},
                "cluster": {"machine": "dgx-a100-80gb"}, "parallelism": {"data": 8}})";
  const auto framework = [&] {
    return case_of(row, load_machine("dgx-a100-80gb")).plan.training.framework;
  };
  CHECK(framework() == Framework::meshwright);
  row.framework = Framework::deepspeed;
  CHECK(framework() == Framework::deepspeed);
  row.job.replace(row.job.find("\"global_batch\""), 0, R"("framework": "torchtitan", )");
  CHECK(framework() == Framework::torchtitan);
}
