// Memory of steps whose gradients exist from the backward to the update only.
#include "sim/predict/pytorch_memory.h"

#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Plan bf16_plan(Framework framework, int micro_batch) {
  Plan plan;
  Training& t = plan.training;
  t.global_batch = t.micro_batch = micro_batch;
  t.sequence_length = 128;
  t.precision = Precision::bf16;
  t.compiler = CompilerLevel::none;
  t.attention = AttentionKernel::flash2;
  t.recompute = Recompute::full;
  t.framework = framework;
  t.master_weights = MasterWeights::none;
  t.moments = t.gradient_reduce = Dtype::bf16;
  return plan;
}

Compiled compiled_alone(const Plan& plan) {
  return compiled_for(small_model(8), plan, {load_machine("p4d.24xlarge"), 1, 1, {}, {}});
}

std::int64_t sum_of(const std::array<std::int64_t, memory_class_count>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

double bytes_per_parameter(Framework framework, int micro_batch) {
  const Compiled compiled = compiled_alone(bf16_plan(framework, micro_batch));
  std::int64_t parameters = 0;
  for (const Bucket& bucket : compiled.stages.front().buckets) parameters += bucket.elements;
  return static_cast<double>(sum_of(peak_in_pytorch(compiled.stages.front()))) /
         static_cast<double>(parameters);
}

// Returns, for every instruction of the backward, the bytes of the gradients that some instruction
// up to it has written: what PyTorch has allocated by then.
std::vector<std::int64_t> gradients_by_instruction(const Program& program, const Body& backward) {
  std::vector<std::int64_t> made;
  for (std::size_t end = 0; end < backward.instructions.size(); ++end) {
    std::int64_t bytes = 0;
    for (const Bucket& bucket : program.buckets)
      for (const int index : bucket.parameters) {
        const StageParameter& parameter = program.parameters[static_cast<std::size_t>(index)];
        const std::int64_t begin = bucket.gradients.offset + 2 * parameter.offset;
        bool is_made = false;
        for (std::size_t i = 0; i <= end; ++i)
          for (const Operand& output : backward.instructions[i].outputs)
            is_made =
                is_made || (output.buffer == bucket.gradients.buffer && output.offset <= begin &&
                            begin < output.offset + output.type.bytes());
        if (is_made) bytes += 2 * parameter.parameter.shape.elements();
      }
    made.push_back(bytes);
  }
  return made;
}

}  // namespace

// 46 published fine-tunings (fms-acceleration) peak at 10 bytes a parameter under transformers'
// AdamW whatever the batch, as long as the update needs more than the backward.
TEST_CASE("a small batch in bf16 peaks in the update: ten bytes a parameter", "[predict]") {
  CHECK(bytes_per_parameter(Framework::transformers, 1) == Approx(10).epsilon(0.01));
  CHECK(bytes_per_parameter(Framework::transformers, 2) == Approx(10).epsilon(0.01));
  CHECK(bytes_per_parameter(Framework::pytorch, 1) < 8.5);  // a fused kernel, and few activations
}

TEST_CASE("gradients count from the instruction that makes them", "[predict]") {
  const Compiled compiled = compiled_alone(bf16_plan(Framework::pytorch, 64));
  const Program& program = compiled.stages.front();
  const auto peak = peak_in_pytorch(program);
  const auto backward = std::ranges::find(program.bodies, Body::Kind::backward, &Body::kind);
  const std::vector<std::int64_t> made = gradients_by_instruction(program, *backward);
  const std::int64_t at_peak = peak[static_cast<std::size_t>(MemoryClass::gradients)];
  CHECK(made.back() > 0);
  CHECK((at_peak == 0 || std::ranges::count(made, at_peak) > 0));
  CHECK(at_peak < made.back());  // a large batch peaks at the loss, before most gradients
  CHECK(sum_of(peak) < program.memory.arena_bytes);
}

TEST_CASE("who keeps gradients between micro-batches, or in buffers, is left out", "[predict]") {
  Training t;
  for (const Framework framework :
       {Framework::transformers, Framework::accelerate, Framework::pytorch}) {
    t.framework = framework;
    CHECK(makes_gradients_anew(t, 1, 1, false));
    CHECK_FALSE(makes_gradients_anew(t, 2, 1, false));
    CHECK_FALSE(makes_gradients_anew(t, 1, 2, false));
    CHECK_FALSE(makes_gradients_anew(t, 1, 1, true));
  }
  for (const Framework framework : {Framework::meshwright, Framework::megatron_lm,
                                    Framework::deepspeed, Framework::torchtitan}) {
    t.framework = framework;
    CHECK_FALSE(makes_gradients_anew(t, 1, 1, false));
  }
}
