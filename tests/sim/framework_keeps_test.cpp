#include "sim/validate/framework_keeps.h"

#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Plan pipeline_plan(int stages, int micro_batches) {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 2 * 2 * micro_batches;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.training.compiler = CompilerLevel::full;
  plan.training.recompute = Recompute::full;
  plan.training.passes_off = {"eager_loss", "fuse_loss"};
  plan.parallelism.pipeline = stages;
  plan.parallelism.data = 2;
  return plan;
}

struct Peaks {
  Compiled compiled;
  Prediction prediction;
  std::int64_t of(const std::string& title) const {
    return peak_with_framework(title, compiled, prediction);
  }
};

Peaks peaks_of(const Plan& plan) {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, plan.degrees().ranks(), {}, {}};
  Compiled compiled = compiled_for(small_model(8), plan, cluster);
  Prediction prediction = predict(compiled, cluster);
  return {std::move(compiled), std::move(prediction)};
}

}  // namespace

TEST_CASE("an unknown framework adds no memory", "[validate]") {
  const Peaks peaks = peaks_of(pipeline_plan(4, 16));
  CHECK(peaks.of("a framework") == peaks.prediction.peak_memory_bytes);
}

TEST_CASE("OneFlow's stages keep twice as many micro-batches as there are stages", "[validate]") {
  const Peaks peaks = peaks_of(pipeline_plan(4, 16));
  std::int64_t most = 0;
  for (const StageMemory& memory : peaks.prediction.memory) {
    const SlotRegion& slots =
        peaks.compiled.stages[static_cast<std::size_t>(memory.stage)].memory.slots[0];
    const int kept = memory.stage < 3 ? 8 : slots.slots;
    most = std::max(most, memory.peak_bytes + slots.stride * (kept - slots.slots));
  }
  CHECK(peaks.of("OneFlow-GPT") == most);
  CHECK(most > peaks.prediction.peak_memory_bytes);
  const Peaks alone = peaks_of(pipeline_plan(1, 16));
  CHECK(alone.of("OneFlow-GPT") == alone.prediction.peak_memory_bytes);
}

TEST_CASE("Alpa's reduced gradients lie beside those of the rank when activations are gone",
          "[validate]") {
  const auto memory_of = [](const Peaks& peaks, MemoryClass which) {
    return peaks.prediction.memory[0].class_bytes[static_cast<std::size_t>(which)];
  };
  const Peaks peaks = peaks_of(pipeline_plan(1, 1));
  std::int64_t gradients = 0;
  for (const Bucket& bucket : peaks.compiled.stages[0].buckets)
    gradients += bucket.gradients.type.bytes();
  const std::int64_t gone =
      memory_of(peaks, MemoryClass::activations) + memory_of(peaks, MemoryClass::workspace);
  REQUIRE(gradients > gone);
  CHECK(peaks.of("Benchmark Alpa") == peaks.prediction.peak_memory_bytes + gradients - gone);
  Plan plan = pipeline_plan(1, 1);
  plan.parallelism.data = 1;
  const Peaks alone = peaks_of(plan);
  CHECK(alone.of("Benchmark Alpa") == alone.prediction.peak_memory_bytes);
}

TEST_CASE("Megatron-LM's loss takes a copy of the logits in fp32", "[validate]") {
  for (const int tensor : {1, 2}) {
    Plan plan = pipeline_plan(1, 1);
    plan.parallelism.tensor = tensor;
    plan.parallelism.data = 2 / tensor;
    plan.training.global_batch = 2 * plan.parallelism.data;
    const Peaks peaks = peaks_of(plan);
    const std::int64_t of_logits = std::int64_t{2} * 128 * 1024 * 4;  // the vocabulary is padded
    CHECK(peaks.of("Megatron-LM") == peaks.prediction.peak_memory_bytes + of_logits / tensor);
  }
}

TEST_CASE("PyTorch's stages keep the messages of all micro-batches", "[validate]") {
  Plan plan = pipeline_plan(2, 16);
  plan.parallelism.zero_stage = 3;
  const Peaks peaks = peaks_of(plan);
  const std::int64_t message = std::int64_t{2} * 128 * 256 * 2;
  const std::int64_t logits = std::int64_t{2} * 128 * 1024 * 2;  // the vocabulary is padded
  const auto stage = [&](int i) {
    return peaks.prediction.memory[static_cast<std::size_t>(i)].peak_bytes;
  };
  const int in_flight = peaks.compiled.stages[1].memory.slots[0].slots;
  CHECK(peaks.of("torchtitan benchmarks") ==
        std::max(stage(0) + 15 * 2 * message,                            // outputs, gradients
                 stage(1) + 15 * logits + (16 - in_flight) * message));  // logits, inputs
}
